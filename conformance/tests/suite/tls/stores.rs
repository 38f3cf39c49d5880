//! Stores that openssl and keytool make, whole and spoilt.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use zoolet_tls::{
    ClientTls, ClientTlsOptions, Secret, ServerTls, ServerTlsOptions, Store, StoreType,
};

use super::support::handshake;
use super::workshop::{PASSWORD, Workshop, store};

/// Each key store serves a client that trusts the authority, each trust store lets it in.
pub(crate) fn are_read(workshop: &Workshop) -> Result<(), Failed> {
    let workshop = workshop.copy()?;
    let w = &workshop;
    let mut keys = Vec::new();
    for name in ["rsa", "ec", "p384", "ed25519"] {
        keys.push(
            w.join(&[&format!("{name}.key"), &format!("{name}.crt")], &format!("{name}.pem"))?,
        );
    }
    for (name, convert) in [
        ("pkcs1", "openssl rsa -traditional -in rsa.key -out pkcs1.key"),
        ("aes", "openssl pkcs8 -topk8 -in rsa.key -out aes.key -passout pass:PASSWORD"),
        ("des3", "openssl pkcs8 -topk8 -v2 des3 -in rsa.key -out des3.key -passout pass:PASSWORD"),
        (
            "sha1",
            "openssl pkcs8 -topk8 -v2 aes128 -v2prf hmacWithSHA1 -in rsa.key -out sha1.key -passout pass:PASSWORD",
        ),
        (
            "scrypt",
            "openssl pkcs8 -topk8 -scrypt -in rsa.key -out scrypt.key -passout pass:PASSWORD",
        ),
    ] {
        w.run(convert)?;
        keys.push(w.join(&["rsa.crt", &format!("{name}.key")], &format!("{name}.pem"))?);
    }
    w.run("openssl ec -in ec.key -out sec1.key")?;
    keys.push(w.join(&["sec1.key", "ec.crt", "ca.pem"], "sec1.PEM")?);

    let export = "openssl pkcs12 -export -passout pass:PASSWORD -certfile ca.pem";
    for name in ["rsa", "ec"] {
        let named = format!("-inkey {name}.key -in {name}.crt -name {name}");
        w.run(&format!("{export} {named} -out {name}.p12"))?;
        w.run(&format!("{export} {named} -legacy -out {name}-legacy.p12"))?;
        w.run(&format!("{export} {named} -keypbe NONE -certpbe NONE -out {name}-plain.p12"))?;
        w.keystore(&format!("{name}.p12"), &format!("{name}-java.P12"), "-deststoretype PKCS12")?;
        w.keystore(&format!("{name}.p12"), &format!("{name}.jks"), "-deststoretype JKS")?;
        for made in [".p12", "-legacy.p12", "-plain.p12", "-java.P12", ".jks"] {
            keys.push(w.path(&format!("{name}{made}")));
        }
    }
    // A key that Java has made itself, which has no public key in it, in both formats of Java.
    for (store_type, file) in [("PKCS12", "own.p12"), ("JKS", "own.jks")] {
        w.run(&format!(
            "keytool -genkeypair -alias own -keyalg EC -groupname secp256r1 -dname CN=own -ext \
             san=dns:localhost -storetype {store_type} -keystore {file} -storepass PASSWORD \
             -keypass PASSWORD"
        ))?;
    }

    let mut trusted = vec![w.path("ca.pem")];
    w.run(
        "openssl pkcs12 -export -nokeys -in ca.pem -passout pass:PASSWORD -out trusted-openssl.p12",
    )?;
    trusted.push(w.path("trusted-openssl.p12"));
    for (store_type, file) in [("PKCS12", "trusted.p12"), ("JKS", "trusted.jks")] {
        w.run(&format!(
            "keytool -importcert -noprompt -alias ca -file ca.pem -storetype {store_type} \
             -keystore {file} -storepass PASSWORD"
        ))?;
        trusted.push(w.path(file));
    }

    let client = |trusted: &Path| {
        let options = ClientTlsOptions::new().key_store(store(&w.path("rsa.p12")));
        ClientTls::load(options.trust_store(store(trusted)))
    };
    let server = |own: &Path, trusted: &Path| {
        ServerTls::load(ServerTlsOptions::new(store(own)).trust_store(store(trusted)))
    };
    for own in &keys {
        let agreed = handshake(&server(own, &trusted[0])?, &client(&trusted[0])?);
        let agreed = agreed.map_err(|error| format!("{}: {error}", own.display()))?;
        assert_eq!(agreed.client.as_deref(), Some("CN=rsa"), "{}", own.display());
    }
    for trusted in &trusted {
        let agreed = handshake(&server(&keys[0], trusted)?, &client(trusted)?);
        agreed.map_err(|error| format!("{}: {error}", trusted.display()))?;
    }
    for own in ["own.p12", "own.jks"].map(|name| w.path(name)) {
        // As in Java, the certificate of a key in a trust store is trusted.
        let agreed = handshake(&server(&own, &trusted[0])?, &client(&own)?);
        agreed.map_err(|error| format!("{}: {error}", own.display()))?;
    }
    // Java reads each of its formats under the name of the other one.
    for (file, store_type) in [("rsa.p12", StoreType::Jks), ("rsa.jks", StoreType::Pkcs12)] {
        let own = store(&w.path(file)).store_type(store_type);
        ServerTls::load(ServerTlsOptions::new(own).trust_store(store(&trusted[0])))?;
    }
    Ok(())
}

/// Each store that cannot be used is an error that names the file and what is wrong.
pub(crate) fn bad_ones_are_told(workshop: &Workshop) -> Result<(), Failed> {
    let workshop = workshop.copy()?;
    let w = &workshop;
    w.join(&["rsa.key", "rsa.crt"], "rsa.pem")?;
    w.run("openssl pkcs12 -export -inkey rsa.key -in rsa.crt -passout pass:PASSWORD -out rsa.p12")?;
    w.keystore("rsa.p12", "rsa.jks", "-deststoretype JKS")?;
    w.keystore("rsa.p12", "rsa.jceks", "-deststoretype JCEKS")?;
    w.run("openssl pkcs8 -topk8 -in rsa.key -out aes.key -passout pass:PASSWORD")?;
    w.join(&["aes.key", "rsa.crt"], "aes.pem")?;
    w.run("openssl rsa -traditional -aes128 -in rsa.key -out old.key -passout pass:PASSWORD")?;
    w.join(&["old.key", "rsa.crt"], "old.pem")?;
    w.run(
        "openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in rsa.key -out pbes1.key -passout pass:PASSWORD",
    )?;
    w.join(&["pbes1.key", "rsa.crt"], "pbes1.pem")?;
    w.join(&["ec.key", "rsa.crt"], "swapped.pem")?;
    w.join(&["rsa.crt"], "keyless.pem")?;
    w.join(&["rsa.key"], "bare.pem")?;
    w.request("weak", "rsa:1024")?;
    w.sign("weak", 30)?;
    w.join(&["weak.key", "weak.crt"], "weak.pem")?;
    w.request("p521", "ec -pkeyopt ec_paramgen_curve:P-521")?;
    w.sign("p521", 30)?;
    w.join(&["p521.key", "p521.crt"], "p521.pem")?;
    w.run("openssl x509 -req -in rsa.csr -CA ca.pem -CAkey ca.key -days 30 -out v1.crt")?;
    w.join(&["rsa.key", "v1.crt"], "v1.pem")?;
    let huge = fs::File::create(w.path("huge.p12"))?;
    huge.set_len(100 << 20)?;
    for (name, text) in [
        ("empty.pem", ""),
        ("garbage.pem", "garbage"),
        ("garbage.p12", "garbage"),
        ("garbage.jks", "garbage"),
        ("store", ""),
        ("store.bcfks", ""),
    ] {
        fs::write(w.path(name), text)?;
    }
    // Half a file, and one with a length of four gigabytes at its beginning.
    for name in ["rsa.pem", "rsa.p12", "rsa.jks"] {
        let whole = fs::read(w.path(name))?;
        fs::write(w.path(&format!("half-{name}")), &whole[..whole.len() / 2])?;
    }
    let mut jks = fs::read(w.path("rsa.jks"))?;
    jks[8..12].fill(0xff);
    fs::write(w.path("long.jks"), &jks)?;

    let right = Some(PASSWORD);
    let cases = [
        ("rsa.p12", Some("wrong"), "password is wrong"),
        ("rsa.p12", None, "no password is set"),
        ("rsa.jks", Some("wrong"), "password is wrong"),
        ("rsa.jks", None, "no password is set"),
        ("aes.pem", Some("wrong"), "password is wrong"),
        ("aes.pem", None, "no password is set"),
        ("old.pem", right, "openssl pkcs8 -topk8"),
        ("pbes1.pem", right, "openssl pkcs8 -topk8"),
        ("swapped.pem", right, "does not fit its first certificate (CN=rsa)"),
        ("keyless.pem", right, "no private key"),
        ("bare.pem", right, "no certificate"),
        ("weak.pem", right, "RSA with 2048"),
        ("p521.pem", right, "P-256 or P-384"),
        ("v1.pem", right, "version"),
        ("empty.pem", right, "it is empty, not a PEM file"),
        ("garbage.pem", right, "not a PEM file"),
        ("garbage.p12", right, "not a PKCS12 file"),
        ("garbage.jks", right, "not a JKS file"),
        ("rsa.jceks", right, "set the type"),
        ("store", right, "its name does not tell its type"),
        ("store.bcfks", right, "convert the store to PKCS12"),
        ("missing.pem", right, "cannot read the key store"),
        ("huge.p12", right, "longer than 16777216 bytes"),
        ("half-rsa.pem", right, "is damaged"),
        ("half-rsa.p12", right, "is damaged"),
        ("half-rsa.jks", right, "ends too early"),
        ("long.jks", right, "is damaged"),
    ];
    let wrong: Vec<_> = cases
        .into_iter()
        .filter_map(|(name, password, expected)| {
            let path = w.path(name);
            let mut own = Store::new(&path);
            if let Some(password) = password {
                own = own.password(Secret::from(password));
            }
            let options = ServerTlsOptions::new(own).trust_store(Store::new(w.path("ca.pem")));
            let said = match ServerTls::load(options) {
                Ok(_) => "it was accepted".to_owned(),
                Err(error) => error.to_string(),
            };
            let names_the_file =
                said.contains(&path.display().to_string()) || name == "store.bcfks";
            let is_told = said.contains(expected) && names_the_file && !said.contains(PASSWORD);
            (!is_told).then(|| format!("{name} ({password:?}): {said}"))
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
