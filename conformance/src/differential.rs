//! Random operations, sent to two servers side by side.
