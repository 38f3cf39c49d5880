//! Tellers transfer money between accounts in all directions at once. Each locks both accounts of a
//! transfer. The server carries out both writes or none, and only while the locks are held.

mod common;

use clap::Parser;
use common::{Arguments, Result, Stage};
use tokio::task::JoinSet;
use zoolet::client::Client;
use zoolet::protocol::{CreateMode, MultiOp, SetData};
use zoolet::recipes::InterProcessMultiLock;

const ACCOUNTS: [&str; 4] = ["ann", "bob", "cy", "dora"];
const OPENING: i64 = 1_000;
const TELLERS: usize = 6;
const TRANSFERS: usize = 20;

#[tokio::main]
async fn main() -> Result<()> {
    run(Arguments::parse()).await.map(drop)
}

/// The sums of all balances before and after.
async fn run(arguments: Arguments) -> Result<(i64, i64)> {
    let stage = Stage::start(arguments).await?;
    let client = stage.connect().await?;
    for account in ACCOUNTS {
        client.create(&path(account)).data(OPENING.to_string()).mode(CreateMode::Ephemeral).await?;
    }
    let before = sum(&client).await?;
    let mut tellers = JoinSet::new();
    for teller in 0..TELLERS {
        tellers.spawn(tell(teller, stage.connect().await?));
    }
    while let Some(teller) = tellers.join_next().await {
        teller??;
    }
    let after = sum(&client).await?;
    println!("{} transfers; {before} before, {after} after", TELLERS * TRANSFERS);
    Ok((before, after))
}

async fn tell(teller: usize, client: Client) -> Result<()> {
    for step in 0..TRANSFERS {
        let from = (teller + step) % ACCOUNTS.len();
        let to = (from + 1 + step % (ACCOUNTS.len() - 1)) % ACCOUNTS.len();
        let amount = i64::try_from(teller * TRANSFERS + step)?;
        transfer(&client, ACCOUNTS[from], ACCOUNTS[to], amount).await?;
    }
    Ok(())
}

async fn transfer(client: &Client, from: &str, to: &str, amount: i64) -> Result<()> {
    let lock = |account| format!("/locks/bank-example/{account}");
    let guard = InterProcessMultiLock::new(client, &[&lock(from), &lock(to)])?.acquire().await?;
    let set = |account, balance: i64| {
        let data = Some(balance.to_string().into());
        MultiOp::SetData(SetData {
            path: path(account).as_str().into(),
            data,
            version: (-1).into(),
        })
    };
    let (less, more) = (balance(client, from).await? - amount, balance(client, to).await? + amount);
    guard.transaction(vec![set(from, less), set(to, more)]).await?;
    guard.release().await?;
    Ok(())
}

async fn sum(client: &Client) -> Result<i64> {
    let mut sum = 0;
    for account in ACCOUNTS {
        let balance = balance(client, account).await?;
        println!("{account} has {balance}");
        sum += balance;
    }
    Ok(sum)
}

async fn balance(client: &Client, account: &str) -> Result<i64> {
    let (data, _) = client.get(&path(account)).await?;
    Ok(std::str::from_utf8(&data)?.parse()?)
}

fn path(account: &str) -> String {
    format!("/bank-example-{account}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn transfers_keep_the_sum() {
        assert_eq!(run(Arguments::default()).await.unwrap(), (4_000, 4_000));
    }
}
