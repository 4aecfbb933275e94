//! What the store asks of a database: rows for statements, one writer, and a sign that others wrote.
//!
//! Statements are shared by all engines: `$1` placeholders, `ON CONFLICT`, row values, nothing of one dialect.

use std::borrow::Cow;

use async_trait::async_trait;

use crate::error::StoreError;

/// A statement; borrowed when it is constant, owned when it has as many places as there are rows.
pub(crate) type Sql = Cow<'static, str>;

/// A value on its way into a statement. An absent one keeps its type, which some engines need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    Bytes(Vec<u8>),
}

impl Value {
    pub(crate) const fn string(text: String) -> Self {
        Self::Text(Some(text))
    }

    pub(crate) fn text(text: &(impl ToString + ?Sized)) -> Self {
        Self::Text(Some(text.to_string()))
    }

    pub(crate) fn opt_text<T: ToString>(text: Option<T>) -> Self {
        Self::Text(text.map(|text| text.to_string()))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl From<u64> for Value {
    /// No count of ours comes near the end of `i64`; should one, it stays there and is caught when it is read back.
    fn from(number: u64) -> Self {
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::from(u64::try_from(number).unwrap_or(u64::MAX))
    }
}

/// A value that came out of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row, read from its first column to its last.
#[derive(Debug)]
pub(crate) struct Row(std::vec::IntoIter<Cell>);

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self(cells.into_iter())
    }

    /// Whether the rest of the row is what these values would have written.
    pub(crate) fn holds(self, values: &[Value]) -> bool {
        let same = |(cell, value): (Cell, &Value)| match (cell, value) {
            (Cell::Null, Value::Int(None) | Value::Text(None)) => true,
            (Cell::Int(found), Value::Int(Some(number))) => found == *number,
            (Cell::Text(found), Value::Text(Some(text))) => found == *text,
            (Cell::Bytes(found), Value::Bytes(bytes)) => found == *bytes,
            _ => false,
        };
        self.0.len() == values.len() && self.0.zip(values).all(same)
    }

    pub(crate) fn int(&mut self, column: &'static str) -> Result<i64, StoreError> {
        match self.0.next() {
            Some(Cell::Int(number)) => Ok(number),
            other => Err(unexpected(column, other.as_ref())),
        }
    }

    pub(crate) fn opt_int(&mut self, column: &'static str) -> Result<Option<i64>, StoreError> {
        match self.0.next() {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Int(number)) => Ok(Some(number)),
            other => Err(unexpected(column, other.as_ref())),
        }
    }

    /// A number that counts something.
    pub(crate) fn count(&mut self, column: &'static str) -> Result<u64, StoreError> {
        u64::try_from(self.int(column)?)
            .map_err(|_| StoreError::UnexpectedValue { column, found: "a negative number" })
    }

    pub(crate) fn opt_count(&mut self, column: &'static str) -> Result<Option<u64>, StoreError> {
        let number = self.opt_int(column)?.map(u64::try_from).transpose();
        number.map_err(|_| StoreError::UnexpectedValue { column, found: "a negative number" })
    }

    pub(crate) fn text(&mut self, column: &'static str) -> Result<String, StoreError> {
        match self.0.next() {
            Some(Cell::Text(text)) => Ok(text),
            other => Err(unexpected(column, other.as_ref())),
        }
    }

    pub(crate) fn opt_text(&mut self, column: &'static str) -> Result<Option<String>, StoreError> {
        match self.0.next() {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Text(text)) => Ok(Some(text)),
            other => Err(unexpected(column, other.as_ref())),
        }
    }

    pub(crate) fn bytes(&mut self, column: &'static str) -> Result<Vec<u8>, StoreError> {
        match self.0.next() {
            Some(Cell::Bytes(bytes)) => Ok(bytes),
            other => Err(unexpected(column, other.as_ref())),
        }
    }

    /// A text that is the printed form of `T`.
    pub(crate) fn parsed<T: std::str::FromStr>(&mut self, column: &'static str) -> Result<T, StoreError> {
        self.text(column)?
            .parse()
            .map_err(|_| StoreError::UnexpectedValue { column, found: "a text of another form" })
    }
}

fn unexpected(column: &'static str, found: Option<&Cell>) -> StoreError {
    let found = match found {
        None => "no value",
        Some(Cell::Null) => "NULL",
        Some(Cell::Int(_)) => "a number",
        Some(Cell::Text(_)) => "a text",
        Some(Cell::Bytes(_)) => "bytes",
    };
    StoreError::UnexpectedValue { column, found }
}

/// Runs statements.
#[async_trait]
pub(crate) trait Connection: Send {
    /// All rows of a query.
    async fn rows(&mut self, sql: Sql, values: Vec<Value>) -> Result<Vec<Row>, StoreError>;

    /// A statement whose rows do not matter.
    async fn run(&mut self, sql: Sql, values: Vec<Value>) -> Result<(), StoreError>;
}

/// A connection that may write, one transaction after the other.
#[async_trait]
pub(crate) trait Writer: Connection {
    /// Starts a transaction in which everything that is read stays as it is until the commit.
    async fn begin(&mut self) -> Result<(), StoreError>;

    /// Makes it durable: when this returns `Ok`, power may fail.
    async fn commit(&mut self) -> Result<(), StoreError>;

    /// Gives it up.
    async fn rollback(&mut self) -> Result<(), StoreError>;

    /// Closes the connection in order.
    async fn close(self: Box<Self>);
}

/// A database with the schema in place.
#[async_trait]
pub(crate) trait Engine: Send + Sync {
    /// A connection for reading.
    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError>;

    /// A connection for writing. The store makes one and keeps it.
    async fn writer(&self) -> Result<Box<dyn Writer>, StoreError>;

    /// A number that is another one after any commit that this store did not make.
    async fn change_mark(&self) -> Result<i64, StoreError>;

    /// The name and version of the database, for people.
    async fn version(&self) -> Result<String, StoreError>;

    /// What the database itself says is wrong with it.
    async fn self_check(&self) -> Result<Vec<String>, StoreError>;

    /// Closes everything but the writer.
    async fn close(&self);
}
