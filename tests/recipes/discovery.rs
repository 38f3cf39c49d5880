//! Tests of discovery on a server in process, under Curator's names where Curator has the scenario:
//! registrations survive what happens to connections, sessions and znodes, and others find them all
//! the time.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zoolet::client::Client;
use zoolet::protocol::{Acl, ErrorCode, Permissions, WatchMode};
use zoolet::recipes::blocking;
use zoolet::recipes::discovery::{
    DiscoveryError, DiscoveryPathConstructor, JsonInstanceSerializer, Registration,
    ServiceDiscovery, ServiceInstance, ServiceType,
};
use zoolet::testing::{RequestFilter, TestServer};
use zoolet_test_support::stage;

const BASE: &str = "/discovery";
const SECOND: Duration = Duration::from_secs(1);

fn instance(service: &str, id: &str) -> ServiceInstance {
    ServiceInstance::new(service, id).address("10.0.0.7").port(10064)
}

fn discovery(client: &Client) -> ServiceDiscovery {
    ServiceDiscovery::start(client, BASE).expect("the path is valid")
}

async fn found<T: Send + Sync + 'static>(discovery: &ServiceDiscovery<T>) -> Vec<String> {
    let instances = discovery.query_for_instances("test").await.expect("the server answers");
    assert_eq!(instances.unreadable, []);
    instances.found.into_iter().map(|instance| instance.id).collect()
}

/// Waits, in virtual time, until a registration is there by a znode of the present session.
async fn registered_by<T: Send + Sync + 'static>(
    registration: &Registration<T>,
    client: &Client,
    raw: &Client,
) {
    let path = registration.path().expect("it was registered before");
    let by_client = async {
        loop {
            let found = raw.exists(&path).await.expect("the server answers");
            let owner = found.map(|stat| stat.ephemeral_owner);
            if owner == Some(client.session_id()) {
                return;
            }
            tokio::time::sleep(SECOND / 10).await;
        }
    };
    tokio::time::timeout(120 * SECOND, by_client).await.expect("it is registered again");
}

#[tokio::test(start_paused = true)]
async fn basic() {
    let server = stage::server().await;
    let discovery = discovery(&stage::connect(&server).await);
    assert_eq!(
        discovery.query_for_names().await.unwrap(),
        [] as [&str; 0],
        "there is no base path"
    );
    let registration = discovery.register(instance("test", "thing")).await.unwrap();
    assert_eq!(discovery.query_for_names().await.unwrap(), ["test"]);
    let read = discovery.query_for_instance("test", "thing").await.unwrap();
    assert_eq!(read.as_ref(), Some(&*registration.instance()));
    assert_eq!(found(&discovery).await, ["thing"]);
    assert_eq!(found(&discovery.clone()).await, ["thing"]);
    assert_eq!(discovery.query_for_instance("test", "none").await.unwrap(), None);
    assert_eq!(discovery.query_for_instances("none").await.unwrap().found, []);
    discovery.close().await.unwrap();
    assert_eq!(found(&discovery).await, [] as [&str; 0]);
    let closed = discovery.register(instance("test", "thing")).await.unwrap_err();
    assert_eq!(closed, DiscoveryError::Closed);
    drop((discovery, registration));
    stage::assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn the_znode_is_that_of_curator() {
    let server = stage::server().await;
    let client = stage::connect(&server).await;
    let discovery = discovery(&client);
    let permanent = instance("test", "p").service_type(ServiceType::Permanent);
    for instance in [instance("test", "d"), permanent] {
        discovery.register(instance).await.unwrap();
    }
    let (data, stat) = client.get("/discovery/test/d").await.unwrap();
    let json = concat!(
        r#"{"name":"test","id":"d","address":"10.0.0.7","port":10064,"sslPort":null,"payload":null,"#,
        r#""registrationTimeUTC":0,"serviceType":"DYNAMIC","uriSpec":null}"#,
    );
    assert_eq!((data, stat.ephemeral_owner), (json.into(), client.session_id()));
    let (_, stat) = client.get("/discovery/test/p").await.unwrap();
    assert!(stat.ephemeral_owner.is_none());
}

#[tokio::test(start_paused = true)]
async fn multiple_instances() {
    let server = stage::server().await;
    let discovery = discovery(&stage::connect(&server).await);
    for id in ["one", "two"] {
        discovery.register(instance("test", id)).await.unwrap();
        discovery.register(instance("other", id)).await.unwrap();
    }
    assert_eq!(discovery.query_for_names().await.unwrap(), ["other", "test"]);
    assert_eq!(found(&discovery).await, ["one", "two"]);
    let again = discovery.register(instance("test", "one")).await.unwrap_err();
    assert_eq!(again, DiscoveryError::AlreadyRegistered("/discovery/test/one".to_owned()));
    let paths: Vec<_> = discovery.registrations().iter().filter_map(Registration::path).collect();
    assert_eq!(paths.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn unregister_service() {
    let server = stage::server().await;
    let discovery = discovery(&stage::connect(&server).await);
    let registration = discovery.register(instance("test", "one")).await.unwrap();
    discovery.register(instance("test", "two")).await.unwrap();
    registration.unregister().await.unwrap();
    assert_eq!(found(&discovery).await, ["two"]);
    registration.unregister().await.unwrap();
    assert!(discovery.registration("test", "one").is_none());
    let error = registration.update(instance("test", "one")).await.unwrap_err();
    assert_eq!(error, DiscoveryError::Unregistered("/discovery/test/one".to_owned()));
    discovery.register(instance("test", "one")).await.unwrap();
    assert_eq!(found(&discovery).await, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn custom_path_constructor() {
    struct Shaped;
    impl DiscoveryPathConstructor for Shaped {
        fn base_path(&self) -> &str {
            "/base"
        }
        fn path_for_instances(&self, service: &str) -> String {
            format!("/base/{service}/instances")
        }
    }
    let server = stage::server().await;
    let client = stage::connect(&server).await;
    let discovery = ServiceDiscovery::<()>::start(&client, Shaped).unwrap();
    discovery.register(instance("test", "one")).await.unwrap();
    assert!(client.exists("/base/test/instances/one").await.unwrap().is_some());
    assert_eq!(discovery.query_for_names().await.unwrap(), ["test"]);
    assert_eq!(found(&discovery).await, ["one"]);
}

#[tokio::test(start_paused = true)]
async fn no_server_on_start() {
    let server = stage::server().await;
    let (client, counting) = stage::counted(&server).await;
    counting.refuse(true);
    counting.cut();
    let this = instance("test", "one");
    let discovery = ServiceDiscovery::builder(&client, BASE).this_instance(this).start().unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(found_by(&stage::connect(&server).await).await, [] as [&str; 0]);
    counting.refuse(false);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(found(&discovery).await, ["one"]);
}

async fn found_by(client: &Client) -> Vec<String> {
    found(&discovery(client)).await
}

/// `testCrashedServer` and `testCrashedServerMultiInstances` of Curator.
#[tokio::test(start_paused = true)]
async fn crashed_server_multi_instances() {
    let server = TestServer::start().await.unwrap();
    let (client, raw) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let discovery = discovery(&client);
    let one = discovery.register(instance("test", "one")).await.unwrap();
    let two = discovery.register(instance("test", "two")).await.unwrap();
    let before = client.session_id();
    server.session(before).expire().unwrap();
    registered_by(&one, &client, &raw).await;
    registered_by(&two, &client, &raw).await;
    assert_ne!(client.session_id(), before);
    assert_eq!(found_by(&raw).await, ["one", "two"]);
}

/// The client gives its session up before the server does, as it must after a long disconnect.
#[tokio::test(start_paused = true)]
async fn an_instance_never_disappears_when_the_client_gave_its_session_up() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let discovery = discovery(&client);
    let registration = discovery.register(instance("test", "one")).await.unwrap();
    let before = client.session_id();
    // The server gives the session its whole timeout again; the client has given it up by then.
    server.stop().await;
    tokio::time::sleep(120 * SECOND).await;
    server.restart().await.unwrap();
    let raw = server.connect().await.unwrap();
    let mut watcher = raw.watch("/discovery/test", WatchMode::PERSISTENT_RECURSIVE).await.unwrap();
    let stat = raw.exists("/discovery/test/one").await.unwrap().expect("the server has kept it");
    assert_eq!(stat.ephemeral_owner, before);
    registered_by(&registration, &client, &raw).await;
    assert_ne!(client.session_id(), before);
    let (gone, there) = (watcher.next().await.unwrap(), watcher.next().await.unwrap());
    assert_eq!(gone.zxid, there.zxid, "one transaction: {gone:?} {there:?}");
}

/// A program was killed and started again.
#[tokio::test(start_paused = true)]
async fn an_instance_never_disappears_when_the_old_session_still_lives() {
    let server = TestServer::start().await.unwrap();
    let raw = server.connect().await.unwrap();
    let old = server.connect().await.unwrap();
    let first = discovery(&old).register(instance("test", "one")).await.unwrap();
    let mut watcher = raw.watch("/discovery/test", WatchMode::PERSISTENT_RECURSIVE).await.unwrap();
    // A program that was killed and started again has another session; the old one goes on.
    server.session(old.session_id()).freeze().unwrap();
    let new = server.connect().await.unwrap();
    let second = discovery(&new).register(instance("test", "one").port(9)).await.unwrap();
    let (gone, there) = (watcher.next().await.unwrap(), watcher.next().await.unwrap());
    assert_eq!(gone.zxid, there.zxid, "one transaction: {gone:?} {there:?}");
    registered_by(&second, &new, &raw).await;
    let port = discovery(&raw).query_for_instance("test", "one").await.unwrap().unwrap().port;
    assert_eq!(port, Some(9));
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_sends_no_write_and_fires_no_event() {
    let server = stage::server().await;
    let (client, counting) = stage::counted(&server).await;
    let raw = stage::connect(&server).await;
    let discovery = discovery(&client);
    for id in ["one", "two", "three"] {
        discovery.register(instance("test", id)).await.unwrap();
    }
    let names = raw.children("/discovery/test").and_watch().await.unwrap();
    let czxids = czxids(&raw).await;
    counting.cut();
    drop(client.sync("/").send());
    tokio::time::sleep(5 * SECOND).await;
    assert!(client.state().borrow().is_some_and(|state| state.is_connected()));
    assert_eq!(self::czxids(&raw).await, czxids, "the znodes are the same");
    let event = tokio::time::timeout(SECOND, names.watcher).await;
    assert!(event.is_err(), "no instance was deleted or created: {event:?}");
}

async fn czxids(raw: &Client) -> Vec<i64> {
    let mut czxids = Vec::new();
    for id in ["one", "two", "three"] {
        let found = raw.exists(&format!("/discovery/test/{id}")).await;
        let stat = found.expect("the server answers").expect("it is registered");
        czxids.push(stat.czxid.0);
    }
    czxids
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_somebody_deletes_is_registered_again() {
    let server = stage::server().await;
    let (client, raw) = (stage::connect(&server).await, stage::connect(&server).await);
    let registration = discovery(&client).register(instance("test", "one")).await.unwrap();
    raw.delete("/discovery/test/one").await.unwrap();
    registered_by(&registration, &client, &raw).await;
    assert_eq!(found_by(&raw).await, ["one"]);
}

#[tokio::test(start_paused = true)]
async fn sequential_instances_keep_their_number_and_are_unregistered() {
    let server = TestServer::start().await.unwrap();
    let (client, raw) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let discovery = discovery(&client);
    let sequential = instance("test", "node-").service_type(ServiceType::DynamicSequential);
    let registration = discovery.register(sequential).await.unwrap();
    assert_eq!(registration.path().as_deref(), Some("/discovery/test/node-0000000000"));
    let read = discovery.query_for_instance("test", "node-0000000000").await.unwrap().unwrap();
    assert_eq!(read.id, "node-", "the data has the id without the number, as in Curator");
    server.session(client.session_id()).expire().unwrap();
    registered_by(&registration, &client, &raw).await;
    let names = raw.children("/discovery/test").await.unwrap();
    assert_eq!(names.iter().collect::<Vec<_>>(), ["node-0000000000"]);
    registration.unregister().await.unwrap();
    assert_eq!(found_by(&raw).await, [] as [&str; 0]);
}

/// The create of the second gets lost on its way: it does not take the znode of the first for its own.
#[tokio::test(start_paused = true)]
async fn a_sequential_instance_that_is_registered_twice_has_two_znodes() {
    let server = TestServer::start().await.unwrap();
    let (client, raw) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let sequential = instance("test", "node-").service_type(ServiceType::DynamicSequential);
    let (one, two) = (discovery(&client), discovery(&client));
    one.register(sequential.clone()).await.unwrap();
    tokio::time::sleep(SECOND).await;
    let filter = RequestFilter::next(1).below("/discovery/test");
    let fault = server.session(client.session_id()).drop_requests(filter).unwrap();
    let registering =
        tokio::spawn(async move { two.register(sequential).await.map(|it| (it, two)) });
    tokio::time::sleep(SECOND).await;
    fault.lift();
    server.session(client.session_id()).cut().unwrap();
    registering.await.unwrap().unwrap();
    let names = raw.children("/discovery/test").await.unwrap();
    assert_eq!(names.iter().collect::<Vec<_>>(), ["node-0000000000", "node-0000000001"]);
}

/// The old program does not know yet that the new one has taken its place.
#[tokio::test(start_paused = true)]
async fn an_update_does_not_change_the_instance_that_replaced_the_own_one() {
    let server = TestServer::start().await.unwrap();
    let raw = server.connect().await.unwrap();
    for knows_nothing in [true, false] {
        let (old, new) = (server.connect().await.unwrap(), server.connect().await.unwrap());
        let first = discovery(&old).register(instance("test", "one")).await.unwrap();
        tokio::time::sleep(SECOND).await;
        let session = server.session(old.session_id());
        let late = if knows_nothing { session.freeze() } else { session.hold() }.unwrap();
        // With messages that are late, the server answers the look before the znode is replaced.
        let updating = first.update(instance("test", "one").port(1));
        tokio::time::timeout(SECOND, updating).await.unwrap_err();
        let second = discovery(&new).register(instance("test", "one").port(2)).await.unwrap();
        let theirs = raw.get("/discovery/test/one").await.unwrap();
        late.lift();
        tokio::time::sleep(SECOND).await;
        assert_eq!(raw.get("/discovery/test/one").await.unwrap(), theirs, "{knows_nothing}");
        second.unregister().await.unwrap();
        registered_by(&first, &old, &raw).await;
        let own = discovery(&raw).query_for_instance("test", "one").await.unwrap().unwrap();
        assert_eq!(own.port, Some(1), "the update was not forgotten");
        first.unregister().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn permanent_instances_stay_and_static_ones_end_with_the_discovery() {
    let server = stage::server().await;
    let raw = stage::connect(&server).await;
    let client = stage::connect(&server).await;
    let discovery = discovery(&client);
    let permanent = instance("test", "permanent").service_type(ServiceType::Permanent);
    let fixed = instance("test", "static").service_type(ServiceType::Static);
    discovery.register(permanent.clone()).await.unwrap();
    discovery.register(fixed).await.unwrap();
    discovery.register(instance("test", "dynamic")).await.unwrap();
    discovery.close().await.unwrap();
    assert_eq!(found_by(&raw).await, ["permanent"]);
    client.close().await.unwrap();
    let next = self::discovery(&raw);
    let registration = next.register(permanent).await.unwrap();
    assert_eq!(found(&next).await, ["permanent"]);
    registration.unregister().await.unwrap();
    assert_eq!(found(&next).await, [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn dropped_discoveries_unregister_in_the_background() {
    let server = stage::server().await;
    let client = stage::connect(&server).await;
    let discovery = discovery(&client);
    let registration = discovery.register(instance("test", "one")).await.unwrap();
    drop(discovery);
    assert_eq!(found_by(&client).await, ["one"], "its registration is there");
    drop(registration);
    tokio::time::sleep(SECOND).await;
    assert_eq!(found_by(&client).await, [] as [&str; 0]);
    stage::assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn updates_survive_the_session() {
    let server = TestServer::start().await.unwrap();
    let (client, raw) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let discovery = discovery(&client);
    let registration = discovery.register(instance("test", "one")).await.unwrap();
    let czxid = raw.exists("/discovery/test/one").await.unwrap().unwrap().czxid;
    registration.update(instance("test", "one").port(7)).await.unwrap();
    let read = async || discovery.query_for_instance("test", "one").await.unwrap().unwrap();
    assert_eq!(read().await.port, Some(7));
    let stat = raw.exists("/discovery/test/one").await.unwrap().unwrap();
    assert_eq!(stat.czxid, czxid, "in place: nobody finds it missing");
    server.session(client.session_id()).expire().unwrap();
    registered_by(&registration, &client, &raw).await;
    assert_eq!(read().await.port, Some(7));
    for other in [instance("test", "two"), instance("other", "one")] {
        let error = registration.update(other).await.unwrap_err();
        assert!(matches!(error, DiscoveryError::AnotherInstance(_)), "{error}");
    }
    let other_type = instance("test", "one").service_type(ServiceType::Static);
    assert!(registration.update(other_type).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn disabled_instance() {
    let server = TestServer::start().await.unwrap();
    let (client, raw) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let with_enabled = |client: &Client| {
        let builder = ServiceDiscovery::<()>::builder(client, BASE);
        builder.serializer(JsonInstanceSerializer::with_enabled()).start().unwrap()
    };
    let registration = with_enabled(&client).register(instance("test", "one")).await.unwrap();
    let provider = with_enabled(&raw).service_provider("test").start().unwrap();
    provider.initialized().await.unwrap();
    let mut changes = provider.cache().changes();
    assert!(provider.instance().is_some());
    registration.disable().await.unwrap();
    changes.changed().await.unwrap();
    assert_eq!((provider.instance(), provider.cache().instances().len()), (None, 1));
    server.session(client.session_id()).expire().unwrap();
    registered_by(&registration, &client, &raw).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(provider.instance(), None, "still disabled");
    registration.enable().await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(provider.instance().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_the_serializer_would_not_write_is_an_error() {
    let server = stage::server().await;
    let discovery = discovery(&stage::connect(&server).await);
    let error = discovery.register(instance("test", "one").disabled()).await.unwrap_err();
    assert!(matches!(error, DiscoveryError::EnabledNotWritten(_)), "{error}");
    let registration = discovery.register(instance("test", "one")).await.unwrap();
    let error = registration.disable().await.unwrap_err();
    assert!(matches!(error, DiscoveryError::EnabledNotWritten(_)), "{error}");
    assert!(registration.instance().enabled);
    let error = discovery.register(instance("test", "a/b")).await.unwrap_err();
    assert!(matches!(error, DiscoveryError::BadId { .. }), "{error}");
}

/// `TestWatchedInstances` of Curator; and what others wrote is kept in the next session.
#[tokio::test(start_paused = true)]
async fn watched_instances() {
    let server = TestServer::start().await.unwrap();
    let (client, raw) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let discovery = ServiceDiscovery::<()>::builder(&client, BASE)
        .serializer(JsonInstanceSerializer::with_enabled())
        .watch_instances()
        .start()
        .unwrap();
    let registration = discovery.register(instance("test", "one")).await.unwrap();
    let (data, _) = raw.get("/discovery/test/one").await.unwrap();
    let text = String::from_utf8(data.to_vec()).unwrap();
    let changed = text.replace("10064", "1").replace("\"enabled\":true", "\"enabled\":false");
    raw.set("/discovery/test/one", changed.clone()).await.unwrap();
    tokio::time::sleep(SECOND).await;
    let now = registration.instance();
    assert_eq!((now.port, now.enabled), (Some(1), false));
    server.session(client.session_id()).expire().unwrap();
    registered_by(&registration, &client, &raw).await;
    assert_eq!(raw.get("/discovery/test/one").await.unwrap().0, changed);
    raw.set("/discovery/test/one", "no instance").await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(registration.instance(), now, "what cannot be read changes nothing");
    registration.enable().await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(registration.instance().enabled, "its own change is not undone");
}

#[tokio::test(start_paused = true)]
async fn another_instance_that_somebody_wrote_is_not_adopted() {
    let server = stage::server().await;
    let (client, raw) = (stage::connect(&server).await, stage::connect(&server).await);
    let builder = ServiceDiscovery::<()>::builder(&client, BASE).watch_instances();
    let discovery = builder.start().unwrap();
    let permanent = instance("test", "one").service_type(ServiceType::Permanent);
    let registration = discovery.register(permanent.clone()).await.unwrap();
    // Missing fields have defaults: the id is empty, and the type dynamic.
    for written in ["{}", r#"{"name":"test","id":"one","serviceType":"DYNAMIC"}"#] {
        raw.set("/discovery/test/one", written).await.unwrap();
        tokio::time::sleep(SECOND).await;
        assert_eq!(*registration.instance(), permanent, "{written}");
    }
    registration.update(permanent.port(7)).await.unwrap();
    registration.unregister().await.unwrap();
    assert_eq!(raw.exists("/discovery/test/one").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn directories_have_the_access_control_lists_of_their_own_paths() {
    let server = stage::server().await;
    let builder = Client::builder().auth("digest", "user:password");
    let builder = builder.acl_provider(|path| match path.starts_with("/discovery/test/") {
        true => vec![Acl::creator_all()],
        false => vec![Acl::open()],
    });
    let client = builder.connect(server.dialer()).await.unwrap();
    let discovery = discovery(&client);
    let _registration = discovery.register(instance("test", "one")).await.unwrap();
    let open = [Acl::open()];
    assert_eq!(client.acl(BASE).await.unwrap().0, open);
    assert_eq!(client.acl("/discovery/test").await.unwrap().0, open);
    let (acl, _) = client.acl("/discovery/test/one").await.unwrap();
    assert_eq!(acl[0].id.scheme.as_deref(), Some("digest"));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_be_read_does_not_hide_the_others() {
    let server = stage::server().await;
    let raw = stage::connect(&server).await;
    let discovery = discovery(&stage::connect(&server).await);
    for id in ["one", "two"] {
        discovery.register(instance("test", id)).await.unwrap();
    }
    let cache = discovery.service_cache("test").unwrap();
    cache.initialized().await.unwrap();
    raw.set("/discovery/test/one", "[").await.unwrap();
    let instances = discovery.query_for_instances("test").await.unwrap();
    assert_eq!(instances.found.len(), 1);
    let [DiscoveryError::Unreadable { path, .. }] = &instances.unreadable[..] else {
        panic!("{:?}", instances.unreadable);
    };
    assert_eq!(path, "/discovery/test/one");
    assert!(discovery.query_for_instance("test", "one").await.is_err());
    tokio::time::sleep(SECOND).await;
    assert_eq!(cache.instances().len(), 1);
    assert_eq!(cache.unreadable(), instances.unreadable);

    let hidden = Acl { permissions: Permissions::ADMIN, ..Acl::open() };
    raw.set_acl("/discovery/test/one", vec![hidden]).await.unwrap();
    let instances = discovery.query_for_instances("test").await.unwrap();
    assert_eq!(instances.found.len(), 1);
    let [DiscoveryError::Client(refused)] = &instances.unreadable[..] else {
        panic!("{:?}", instances.unreadable);
    };
    assert!(refused.is(ErrorCode::NO_AUTH), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_returned_and_leaves_nothing() {
    let server = stage::server().await;
    let client = stage::connect(&server).await;
    client.create(BASE).acl(vec![Acl::read_only()]).await.unwrap();
    let discovery = discovery(&client);
    let error = discovery.register(instance("test", "one")).await.unwrap_err();
    let DiscoveryError::Client(refused) = &error else { panic!("{error}") };
    assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH));
    assert!(discovery.registration("test", "one").is_none());
}

#[tokio::test(start_paused = true)]
async fn payloads_are_read_as_they_were_written() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "@class", rename = "com.example.Shard")]
    struct Shard {
        first: u32,
        names: Vec<String>,
    }
    let server = stage::server().await;
    let client = stage::connect(&server).await;
    let discovery = ServiceDiscovery::<Shard>::start(&client, BASE).unwrap();
    let payload = Shard { first: 7, names: vec!["a".to_owned()] };
    let instance = discovery.new_instance("test").payload(payload);
    assert!(instance.registration_time_utc > 0 && instance.address.is_some());
    let registration = discovery.register(instance).await.unwrap();
    let provider = discovery.service_provider("test").start().unwrap();
    provider.initialized().await.unwrap();
    assert_eq!(provider.instance(), Some(registration.instance()));
    // Java finds its class in it.
    let untyped = ServiceDiscovery::<serde_json::Value>::start(&client, BASE).unwrap();
    let instances = untyped.query_for_instances("test").await.unwrap().found;
    assert_eq!(instances[0].payload.as_ref().unwrap()["@class"], "com.example.Shard");
}

/// `TestServiceCache` of Curator: `testInitialLoad`, `testUpdate` and `testCache`.
#[tokio::test(start_paused = true)]
async fn a_cache_follows_registrations_updates_and_the_end_of_instances() {
    let server = stage::server().await;
    let discovery = discovery(&stage::connect(&server).await);
    let first = discovery.register(instance("test", "b")).await.unwrap();
    let cache = self::discovery(&stage::connect(&server).await).service_cache("test").unwrap();
    cache.initialized().await.unwrap();
    let ids = || cache.instances().iter().map(|it| it.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(), ["b"]);
    let mut changes = cache.changes();
    discovery.register(instance("test", "a")).await.unwrap();
    changes.changed().await.unwrap();
    assert_eq!(ids(), ["a", "b"]);
    first.update(instance("test", "b").port(5)).await.unwrap();
    changes.changed().await.unwrap();
    assert_eq!(cache.instance("b").unwrap().port, Some(5));
    let list = cache.instances();
    assert!(Arc::ptr_eq(&list, &cache.instances()), "one list as long as nothing changes");
    first.unregister().await.unwrap();
    changes.changed().await.unwrap();
    assert_eq!((ids(), list.len()), (vec!["a".to_owned()], 2));
    drop(cache);
    discovery.close().await.unwrap();
    stage::assert_clean(&server).await;
}

/// `TestServiceCache.testViaProvider` and `TestServiceProvider.testBasic` of Curator.
#[tokio::test(start_paused = true)]
async fn a_provider_chooses_without_a_request_also_without_a_connection() {
    let server = stage::server().await;
    let (client, counting) = stage::counted(&server).await;
    let discovery = discovery(&client);
    let provider = discovery.service_provider("test").start().unwrap();
    provider.initialized().await.unwrap();
    assert_eq!(provider.instance(), None);
    for id in ["a", "b"] {
        discovery.register(instance("test", id)).await.unwrap();
    }
    tokio::time::sleep(SECOND).await;
    counting.take_requests();
    let chosen = || provider.instance().unwrap().id.clone();
    assert_eq!([chosen(), chosen(), chosen()], ["a", "b", "a"]);
    assert_eq!(counting.take_requests(), []);
    counting.refuse(true);
    counting.cut();
    drop(client.sync("/").send());
    tokio::time::sleep(SECOND).await;
    assert_eq!([chosen(), chosen()], ["b", "a"], "what it knew last");
}

#[tokio::test(start_paused = true)]
async fn a_provider_leaves_out_what_failed_and_what_a_filter_refuses() {
    let server = stage::server().await;
    let discovery = discovery(&stage::connect(&server).await);
    for id in ["a", "b", "c"] {
        discovery.register(instance("test", id)).await.unwrap();
    }
    let provider = discovery.service_provider("test").filter(|it| it.id != "c").start().unwrap();
    provider.initialized().await.unwrap();
    let ids = || provider.instances().iter().map(|it| it.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(), ["a", "b"]);
    let a = provider.cache().instance("a").unwrap();
    provider.note_error(&a);
    assert_eq!(ids(), ["a", "b"]);
    provider.note_error(&a);
    assert_eq!(ids(), ["b"]);
    tokio::time::sleep(30 * SECOND).await;
    assert_eq!(ids(), ["a", "b"]);
}

/// What an administrator wrote to a persistent instance while its program was away stays.
#[tokio::test(start_paused = true)]
async fn a_new_session_does_not_overwrite_a_static_instance() {
    let server = TestServer::start().await.unwrap();
    let (client, raw) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let discovery = discovery(&client);
    let fixed = instance("test", "one").service_type(ServiceType::Static);
    let registration = discovery.register(fixed).await.unwrap();
    let (data, stat) = raw.get("/discovery/test/one").await.unwrap();
    let text = String::from_utf8(data.to_vec()).unwrap();
    let before = client.session_id();
    server.session(before).expire().unwrap();
    raw.set("/discovery/test/one", text.replace("10064", "1")).await.unwrap();
    tokio::time::sleep(60 * SECOND).await;
    assert_ne!(client.session_id(), before);
    let read = discovery.query_for_instance("test", "one").await.unwrap().unwrap();
    assert_eq!(read.port, Some(1));
    assert_eq!(raw.exists("/discovery/test/one").await.unwrap().unwrap().czxid, stat.czxid);
    registration.unregister().await.unwrap();
    assert_eq!(found_by(&raw).await, [] as [&str; 0]);
}

/// The recipes for threads.
#[test]
fn threads_register_and_find_each_other() {
    let server = zoolet::server::blocking::Server::start(zoolet::server::Server::builder());
    let server = server.unwrap();
    let connect = || zoolet::client::blocking::Client::connect(server.dialer()).unwrap();
    let (client, other) = (connect(), connect());
    let builder = ServiceDiscovery::<()>::builder(client.ask(), BASE);
    let builder = builder.serializer(JsonInstanceSerializer::with_enabled());
    let discovery = blocking::ServiceDiscovery::start_with(&client, builder).unwrap();
    let registration = discovery.register(instance("test", "one")).unwrap();
    let theirs = blocking::ServiceDiscovery::<()>::start(&other, BASE).unwrap();
    assert_eq!(theirs.query_for_names().unwrap(), ["test"]);
    assert_eq!(theirs.query_for_instances("test").unwrap().found.len(), 1);
    let provider = theirs.service_provider("test").unwrap();
    assert_eq!(provider.get().instance().unwrap().id, "one");
    let cache = theirs.service_cache("test").unwrap();
    let mut changes = cache.get().changes();
    registration.disable().unwrap();
    other.wait_within(60 * SECOND, changes.changed()).expect("it is told").unwrap();
    assert!(!cache.get().instance("one").unwrap().enabled);
    registration.enable().unwrap();
    registration.update(instance("test", "one").port(7)).unwrap();
    let read = theirs.query_for_instance("test", "one").unwrap().unwrap();
    assert_eq!((read.port, read.enabled), (Some(7), true));
    registration.unregister().unwrap();
    assert_eq!(theirs.query_for_instances("test").unwrap().found, []);
    discovery.close().unwrap();
}
