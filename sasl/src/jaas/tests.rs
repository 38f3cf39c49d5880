use super::*;

const DIGEST: &str = DIGEST_LOGIN_MODULE;

fn users(text: &str) -> Result<Vec<(String, String)>, String> {
    let file = JaasFile::parse("j", text).map_err(|error| error.to_string())?;
    let users = file.digest_users("Server").map_err(|error| error.to_string())?;
    let password = |user: &str| users.password(user).map(|password| password.expose().to_owned());
    Ok(users.names().map(|user| (user.to_owned(), password(user).unwrap_or_default())).collect())
}

#[test]
fn files_are_read_as_by_java() {
    let text = format!(
        "/* of the\n server */ QuorumServer {{ Other optional; }};\n\
         \"Server\" {{ // users\n\
         {DIGEST} REQUIRED user_a=plain user_b=\"in \\\"quotes\\\"\\\\\" / a comment too\n\
         user_c=\"\\101\\t\\60\\477\" user_d.e-f$=*x.9 \"user_g h@R\"=\"${{/}}\" user_i=\"a$b\";\n\
         {DIGEST} optional user_a=\"later\" debug=true user_j=\"no end\n\
         user_k=\"${{{{x}}}}\" user_l=\"${{x\" user_ä=ö;\n}};",
    );
    let expected = [
        ("a", "later"),
        ("b", "in \"quotes\"\\"),
        ("c", "A\t0'7"),
        ("d.e-f$", "*x.9"),
        ("g h@R", "/"),
        ("i", "a$b"),
        ("j", "no end"),
        ("k", "${{x}}"),
        ("l", "${x"),
        ("ä", "ö"),
    ];
    let expected = expected.map(|(user, password)| (user.to_owned(), password.to_owned()));
    assert_eq!(users(&text), Ok(expected.to_vec()));
}

#[test]
fn each_message_names_the_line_and_the_cure_and_no_value() {
    let long = "x".repeat(USER_BYTES_MAX + 1);
    let cases = [
        ("".to_owned(), "j: there is no section \"Server\"; the file has none"),
        ("Client { };\nB { };".to_owned(), "the file has B, Client"),
        (
            "Server\n{ }".to_owned(),
            "j:2: expected \";\" after the \"}\" of a section, found the end",
        ),
        ("Server { };\nServer { };".to_owned(), "j:2: the section \"Server\" is there twice"),
        (
            "Server { };".to_owned(),
            "j:1: the section \"Server\" has no users; add options user_NAME",
        ),
        (";".to_owned(), "j:1: expected the name of a section, found \";\""),
        ("Server { X needed; };".to_owned(), "j:1: the flag after the class must be required"),
        (
            format!("Server {{ {DIGEST} required\nuser_a\n\"secret\"; }};"),
            "j:3: expected \"=\" after",
        ),
        (
            format!("Server {{ {DIGEST} required user_a=7secret; }};"),
            "found a number; put it in quotes",
        ),
        (format!("Server {{ {DIGEST} required user_a='secret'; }};"), "that must be in quotes"),
        (format!("Server {{ {DIGEST} required user_a=\"${{secret}}\"; }};"), "a property of Java"),
        (
            format!("Server {{ {DIGEST} required user_a=\"secret\" }};"),
            "or \";\" after the last one",
        ),
        (
            format!("Server {{ {DIGEST} required user_=\"secret\"; }};"),
            "the user \"\" cannot be used",
        ),
        (format!("Server {{ {DIGEST} required \"user_a@b@c\"=secret; }};"), "must be NAME@REALM"),
        (format!("Server {{ {DIGEST} required user_{long}=secret; }};"), "up to 1024 bytes"),
        (format!("Server {{ {DIGEST} required user_a=\"\"; }};"), "\"a\" has an empty password"),
        (
            "Server {\n com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; };"
                .to_owned(),
            "j:2: com.sun.security.auth.module.Krb5LoginModule logs in by Kerberos, which zoolet does",
        ),
        ("Server { com.example.Login required; };".to_owned(), "com.example.Login is unknown"),
        ("Server { /* ".to_owned(), "found the end of the file"),
    ];
    for (text, expected) in cases {
        let error = users(&text).expect_err(&text);
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn debug_output_shows_no_password() {
    let file = JaasFile::parse("j", &format!("Server {{ {DIGEST} required user_a=secret; }};"));
    let file = file.expect("it is valid");
    assert!(!format!("{file:?}").contains("secret"));
    assert!(!format!("{:?}", file.digest_users("Server")).contains("secret"));
}

#[test]
fn a_file_that_is_no_jaas_file_is_refused() {
    let error = JaasFile::read("/dev/zero").expect_err("it has no end");
    assert!(matches!(error.kind, JaasErrorKind::TooLong), "{error}");
    let error = JaasFile::read("/nonexistent/jaas.conf").expect_err("it is not there");
    assert!(error.to_string().starts_with("/nonexistent/jaas.conf: cannot read"), "{error}");
}
