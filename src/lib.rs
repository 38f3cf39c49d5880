//! zoolet
