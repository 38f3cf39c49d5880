//! Tests of `TestEnsemble`: what clients of an ensemble see when followers lag and leaders are lost.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

mod elections;
mod lag;

use zoolet::testing::TestEnsemble;

async fn start() -> TestEnsemble {
    TestEnsemble::start().await.expect("the ensemble starts")
}
