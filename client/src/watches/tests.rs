use std::task::Wake;

use super::*;

/// Notes its number when it is woken.
struct Numbered(u8, Arc<Mutex<Vec<u8>>>);

impl Wake for Numbered {
    fn wake(self: Arc<Self>) {
        self.1.lock().push(self.0);
    }
}

/// Lets tasks with these numbers wait, and returns who was woken by an event after `change`.
fn woken_after(waiting: &[u8], change: impl FnOnce(&EventQueue, &[WaiterId])) -> Vec<u8> {
    let (queue, woken) = (EventQueue::default(), Arc::default());
    let ids: Vec<_> = waiting.iter().map(|_| WaiterId::unique()).collect();
    for (number, id) in waiting.iter().zip(&ids) {
        let waker = Waker::from(Arc::new(Numbered(*number, Arc::clone(&woken))));
        assert!(queue.poll_next(*id, &Context::from_waker(&waker)).is_pending());
    }
    change(&queue, &ids);
    let mut wakers = Vec::new();
    queue.push(WatchUpdate::Closed, &mut wakers);
    wakers.into_iter().for_each(Waker::wake);
    Arc::into_inner(woken).map(Mutex::into_inner).unwrap_or_default()
}

#[test]
fn tasks_are_woken_in_the_order_in_which_they_began_to_wait() {
    assert_eq!(woken_after(&[1, 2, 3], |_, _| {}), [1, 2, 3]);
    assert_eq!(woken_after(&[1, 2, 3], |queue, ids| queue.forget_waiter(ids[0])), [2, 3]);
    assert_eq!(woken_after(&[1, 2, 3], |queue, ids| queue.forget_waiter(ids[1])), [1, 3]);
    let again = |queue: &EventQueue, ids: &[WaiterId]| {
        let _ = queue.poll_next(ids[0], &Context::from_waker(Waker::noop()));
    };
    assert_eq!(woken_after(&[1, 2], again), [2], "the last waker of a task counts");
    assert_eq!(woken_after(&[1], |queue, ids| queue.forget_waiter(ids[0])), []);
}

#[test]
fn recursive_watchers_get_the_events_of_descendants_until_the_last_is_gone() {
    let (mut watches, mut wakers) = (Watches::default(), Vec::new());
    let event = WatchedEvent::new(EventType::NODE_CREATED, "/a/b");
    let queues = [(); 3].map(|()| Arc::new(EventQueue::default()));
    for queue in &queues {
        watches.add("/a".into(), WatchKind::Recursive, Arc::clone(queue));
        watches.add("/a".into(), WatchKind::Child, Arc::clone(queue));
    }
    watches.remove_all(&queues[0]);
    assert!(!watches.remove("/a", WatchKind::Recursive, &queues[1]));
    watches.fire(Zxid(1), &event, &mut wakers);
    let got = |queue: &EventQueue| queue.try_next().is_some();
    assert_eq!(queues.each_ref().map(|queue| got(queue)), [false, false, true]);
    assert!(watches.remove("/a", WatchKind::Recursive, &queues[2]));
    watches.fire(Zxid(2), &event, &mut wakers);
    assert!(!got(&queues[2]));
    assert_eq!(watches.recursive, 0);
}

#[test]
fn a_queue_knows_whether_watches_have_it() {
    let (mut watches, mut wakers) = (Watches::default(), Vec::new());
    let queue = Arc::new(EventQueue::default());
    for kind in [WatchKind::Data, WatchKind::Child] {
        watches.add_if_needed("/a".into(), kind, Arc::clone(&queue));
    }
    let event = |event_type| WatchedEvent::new(event_type, "/a");
    watches.fire(Zxid(1), &event(EventType::NODE_DATA_CHANGED), &mut wakers);
    assert_eq!((watches.len(), queue.state.lock().entries), (1, 1));
    watches.fire(Zxid(1), &event(EventType::NODE_DELETED), &mut wakers);
    assert_eq!(watches.len(), 0);
    assert!(!queue.abandon(), "all have fired");
    watches.add_if_needed("/a".into(), WatchKind::Data, queue);
    assert_eq!(watches.len(), 0, "nobody waits for it any more");
}

#[test]
fn updates_come_in_their_order_however_many_wait() {
    let (queue, mut wakers) = (EventQueue::of_one_znode(), Vec::new());
    let event = WatchedEvent::new(EventType::NODE_DATA_CHANGED, "/a");
    let (mut pushed, mut taken) = (0, 0);
    for (pushes, takes) in [(1, 1), (2, 1), (3, 2), (5, 6), (1, 2)] {
        for _ in 0..pushes {
            pushed += 1;
            queue.push(queue.update(Zxid(pushed), &event), &mut wakers);
        }
        for _ in 0..takes {
            let update = queue.try_next();
            taken += i64::from(update.is_some());
            let zxid = update
                .map(|update| matches!(update, WatchUpdate::Event(zxid, _) if zxid.0 == taken));
            assert_eq!(zxid, Some(true), "number {taken}");
        }
    }
    assert_eq!((pushed, taken), (12, 12));
    assert_eq!(queue.try_next(), None);
}
