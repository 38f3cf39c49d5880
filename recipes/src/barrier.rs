//! Curator's barriers.

pub(crate) mod distributed_barrier;
pub(crate) mod distributed_double_barrier;
pub(crate) mod member;

pub use self::distributed_barrier::DistributedBarrier;
pub use self::distributed_double_barrier::DistributedDoubleBarrier;
pub use self::member::Membership;
