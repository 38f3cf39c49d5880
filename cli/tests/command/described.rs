//! Compares the test control with its own description: each request that a test sends, and each
//! answer that it gets.

use serde_json::{Value, json};

/// Fails unless an answer is one that the description has. A request that was carried out must be
/// valid by the description too, and one that was refused as nonsense must not be.
pub(crate) fn check(what: &str, request: &Value, status: u16, answer: &Value) {
    let description: Value =
        serde_json::from_str(include_str!("../../src/serve/test_control/openapi.json"))
            .expect("it is JSON");
    let (method, target) = what.split_once(' ').expect("a method and a path");
    let path = target.split('?').next().unwrap_or_default();
    let Some(operation) = operation(&description, method, path) else {
        assert!(path == "/" || [403, 404, 405].contains(&status), "{what} is not described");
        return;
    };
    let responses = &operation["responses"];
    let response = responses.get(status.to_string()).unwrap_or_else(|| &responses["default"]);
    let schema = &resolved(&description, response)["content"]["application/json"]["schema"];
    if let Err(error) = validate(&description, schema, answer) {
        panic!("{what}: {status} {answer} is not as described: {error}");
    }
    if let Some(body) = operation.get("requestBody") {
        let schema = &resolved(&description, body)["content"]["application/json"]["schema"];
        match (status, validate(&description, schema, request)) {
            (200, Err(error)) => panic!("{what} takes {request}, by the description not: {error}"),
            (422, Ok(())) => panic!("{what} refuses {request}, and by the description it does not"),
            _ => {}
        }
    }
}

/// The operation of a path, whose parameters have values.
fn operation<'a>(description: &'a Value, method: &str, path: &str) -> Option<&'a Value> {
    let is_of_path = |template: &str| {
        let (template, path) = (template.split('/'), path.split('/'));
        template.clone().count() == path.clone().count()
            && template.zip(path).all(|(known, given)| known == given || known.starts_with('{'))
    };
    let paths = description["paths"].as_object()?;
    let (_, item) = paths.iter().find(|(template, _)| is_of_path(template))?;
    item.get(method.to_lowercase())
}

/// What a reference refers to.
fn resolved<'a>(description: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => description.pointer(pointer).expect("the reference leads somewhere"),
        None => value,
    }
}

fn validate(description: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let mut schema = schema.clone();
    // References in a schema begin at its root.
    schema["components"] = description["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).expect("it is a schema");
    validator.validate(value).map_err(|error| error.to_string())
}

#[test]
#[should_panic(expected = "is not as described")]
fn an_answer_that_is_not_described_is_found() {
    check("POST /v1/cut", &json!({}), 200, &json!({ "cut": "all" }));
}

#[test]
#[should_panic(expected = "by the description not")]
fn a_request_that_is_not_described_is_found() {
    check("POST /v1/cut", &json!({ "sesion": 1 }), 200, &json!({ "cut": 1 }));
}
