//! One server: how it is reached, the tools it had when it was first asked, and its connection, which may be new.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::catalog::{Listed, catalog};
use crate::connection::Connection;
use crate::fault::Fault;
use crate::name::ServerName;
use crate::servers::Remark;

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// A program that is started, and spoken to by its standard streams.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Its whole environment.
        environment: Vec<(OsString, OsString)>,
    },
    /// A server that is there already.
    Http {
        /// Its address.
        url: String,
        /// What it knows the user by.
        token: Option<Token>,
    },
}

/// A secret, which nothing prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// How long a server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until it has started and told its tools.
    pub start: Duration,
    /// For one call.
    pub call: Duration,
    /// To take notice that a call is over, before its program is killed.
    pub cancel: Duration,
}

impl Default for Limits {
    /// A start may have to fetch the program; a call has as long as a command; a cancelled one is waited for by a turn
    /// that has to end.
    fn default() -> Self {
        Self { start: Duration::from_secs(30), call: Duration::from_mins(2), cancel: Duration::from_secs(1) }
    }
}

/// A server whose tools are known.
pub(crate) struct Server {
    pub(crate) name: ServerName,
    pub(crate) limits: Limits,
    reach: Reach,
    folder: PathBuf,
    connection: Mutex<Arc<Connection>>,
}

impl Server {
    /// Reaches it and takes the list of its tools.
    pub(crate) async fn open(
        name: ServerName,
        reach: Reach,
        folder: PathBuf,
        limits: Limits,
    ) -> Result<(Self, Vec<Listed>, Vec<Remark>), Fault> {
        let connect = async {
            let connection = Connection::open(&reach, &folder).await?;
            let tools = connection.list().await?;
            Ok((connection, tools))
        };
        let (connection, tools) = within(limits.start, connect).await?;
        let (catalog, remarks) = catalog(&name, tools);
        let connection = Mutex::new(Arc::new(connection));
        Ok((Self { name, limits, reach, folder, connection }, catalog, remarks))
    }

    /// A connection over which this tool is what it was when the list was taken. One that broke off is made anew.
    pub(crate) async fn connection_for(&self, tool: &Listed) -> Result<Arc<Connection>, Fault> {
        let connection = within(self.limits.start, self.connected()).await?;
        let tools = within(self.limits.start, connection.list()).await;
        if let Err(Fault::Silent(_)) = tools {
            // The next call gets a new one instead of as long a wait.
            connection.kill();
        }
        tool.check_unchanged(&tools?)?;
        Ok(connection)
    }

    async fn connected(&self) -> Result<Arc<Connection>, Fault> {
        let mut connection = self.connection.lock().await;
        if connection.is_over() {
            *connection = Arc::new(Connection::open(&self.reach, &self.folder).await?);
        }
        Ok(Arc::clone(&connection))
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    timeout(limit, work).await.unwrap_or(Err(Fault::Silent(limit)))
}
