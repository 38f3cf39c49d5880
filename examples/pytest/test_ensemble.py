"""Tests that need more than one server: a follower that lags, and a leader that is lost."""


def test_a_follower_that_lags_shows_the_past_until_sync(ensemble):
    writer, reader = ensemble.client(server=0), ensemble.client(server=1)
    writer.create("/config", b"old")
    ensemble.until("caught_up")
    ensemble.lag(1, by_ms=300)
    writer.set("/config", b"new")
    assert reader.get("/config")[0] == b"old"
    reader.sync("/config")
    assert reader.get("/config")[0] == b"new"


def test_a_lock_is_kept_when_the_leader_is_lost(ensemble):
    owner, other = ensemble.client(), ensemble.client()
    lock = owner.Lock("/lock", "owner")
    assert lock.acquire(timeout=10)
    lost = ensemble.server("leader", "stop")["server"]
    assert ensemble.until("serving")["leader"] != lost
    assert owner.retry(owner.exists, f"/lock/{lock.node}"), "its session has moved"
    assert not other.Lock("/lock", "other").acquire(blocking=False)


def test_a_server_that_is_cut_off_does_not_know_of_later_writes(ensemble):
    writer, reader = ensemble.client(server=0), ensemble.client(server=2)
    ensemble.server(2, "cut_off")
    writer.create("/late")
    assert not reader.exists("/late")
    ensemble.server(2, "rejoin")
    assert reader.retry(reader.exists, "/late")
