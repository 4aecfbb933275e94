//! Keeps the texts of the statements that run, for tests that count them or ask how they find their rows.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::engine::{Connection, Row, Sql, Value, Writer};
use crate::error::StoreError;

/// The statements in the order in which they ran.
pub(crate) type Statements = Arc<Mutex<Vec<String>>>;

/// A connection that is listened to.
pub(crate) struct Recorder<C: ?Sized> {
    pub(crate) inner: Box<C>,
    pub(crate) statements: Statements,
}

impl<C: ?Sized> Recorder<C> {
    fn note(&self, sql: &Sql) {
        self.statements.lock().unwrap().push(sql.to_string());
    }
}

#[async_trait]
impl<C: Connection + ?Sized> Connection for Recorder<C> {
    async fn rows(&mut self, sql: Sql, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        self.note(&sql);
        self.inner.rows(sql, values).await
    }

    async fn run(&mut self, sql: Sql, values: Vec<Value>) -> Result<(), StoreError> {
        self.note(&sql);
        self.inner.run(sql, values).await
    }
}

#[async_trait]
impl Writer for Recorder<dyn Writer> {
    async fn begin(&mut self) -> Result<(), StoreError> {
        self.inner.begin().await
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.inner.commit().await
    }

    async fn rollback(&mut self) -> Result<(), StoreError> {
        self.inner.rollback().await
    }

    async fn close(self: Box<Self>) {
        self.inner.close().await;
    }
}
