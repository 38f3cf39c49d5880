//! A client of bare requests over a link without faults: it prepares the run, and reads everything
//! after each start of the server and at the end. The model checks each reply.

use bytes::{Bytes, BytesMut};
use zoolet_protocol::{
    Acl, ConnectRequest, Create, CreateFlags, CreateKind, Dial, Encode, Expect, Incoming, MultiOp,
    MultiReadOp, Read, Request, SetData, Transport, Write, Xid, decode_incoming, encode_request,
};
use zoolet_testkit::sim::parts::Link;

use super::oracle::Oracle;
use super::tree::raw;

pub(crate) struct Observer {
    transport: Box<dyn Transport>,
    last_xid: i32,
}

impl Observer {
    /// Connects and opens a session.
    pub(crate) async fn connect(link: &Link) -> Option<Self> {
        let transport = link.dial().await.ok()?;
        let observer = Self { transport, last_xid: 0 };
        let mut frame = BytesMut::new();
        ConnectRequest::new(i32::MAX).encode(&mut frame);
        observer.transport.send(frame.freeze()).ok()?;
        observer.receive().await?;
        Some(observer)
    }

    async fn receive(&self) -> Option<Bytes> {
        std::future::poll_fn(|context| self.transport.poll_receive(context)).await
    }

    async fn call(&mut self, request: Request) -> Option<()> {
        self.last_xid += 1;
        self.transport.send(encode_request(Xid(self.last_xid), &request)).ok()?;
        loop {
            if let Incoming::Reply { .. } = decode_incoming(&self.receive().await?).ok()? {
                return Some(());
            }
        }
    }

    pub(crate) async fn create(&mut self, path: &str) -> Option<()> {
        let create = Create {
            kind: CreateKind::Create,
            path: raw(path),
            data: None,
            acl: Some(vec![Acl::open()]),
            flags: CreateFlags::PERSISTENT,
        };
        self.call(Request::Write(Write::Op(MultiOp::Create(create)))).await
    }

    pub(crate) async fn set(&mut self, path: &str, data: &'static str) -> Option<()> {
        let data = Some(Bytes::from_static(data.as_bytes()));
        let set = SetData { path: raw(path), data, version: Expect::Any };
        self.call(Request::Write(Write::Op(MultiOp::SetData(set)))).await
    }

    /// Reads everything.
    pub(crate) async fn read_all(&mut self, oracle: &Oracle) -> Option<()> {
        let paths: Vec<String> = oracle.inspect(|model| model.tree.paths().cloned().collect());
        let both = |path| [MultiReadOp::GetData(raw(path)), MultiReadOp::GetChildren(raw(path))];
        let ops = paths.iter().flat_map(|path| both(path)).collect();
        self.call(Request::Read(Read::MultiRead(ops))).await
    }

    /// Closes the session.
    pub(crate) async fn close(mut self) -> Option<()> {
        self.call(Request::Write(Write::CloseSession)).await
    }
}
