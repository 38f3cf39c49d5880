//! The description of the routes for programs: OpenAPI 3.1.

use std::collections::BTreeMap;

use serde_json::Value;

/// Where it is served.
pub(super) const PATH: &str = "/v1/openapi.json";

/// As it is served.
pub(super) const TEXT: &str = include_str!("openapi.json");

/// Each method and path with its summary.
pub(super) fn summaries() -> BTreeMap<String, String> {
    let summary = |operation: &Value| operation["summary"].as_str().unwrap_or_default().to_owned();
    let all = operations().into_iter();
    all.map(|(path, method, operation)| (format!("{method} {path}"), summary(&operation))).collect()
}

/// The methods of each path.
#[cfg(test)]
pub(super) fn methods_by_path() -> BTreeMap<String, Vec<String>> {
    let mut methods: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, method, _) in operations() {
        methods.entry(path).or_default().push(method);
    }
    methods
}

/// All operations with their paths and methods.
fn operations() -> Vec<(String, String, Value)> {
    let description: Value = serde_json::from_str(TEXT).expect("it is part of the program");
    let paths = description["paths"].as_object().cloned().unwrap_or_default();
    let of_path = |(path, item): (String, Value)| {
        let methods = item.as_object().cloned().unwrap_or_default().into_iter();
        // What is not an object are the parameters that all methods have.
        let methods = methods.filter(|(_, operation)| operation.is_object());
        methods.map(move |(method, operation)| (path.clone(), method.to_uppercase(), operation))
    };
    paths.into_iter().flat_map(of_path).collect()
}
