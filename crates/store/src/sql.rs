//! Statements over many rows: few round trips, and few distinct texts for the statement cache.

use crate::engine::{Connection, Row, Value};
use crate::error::StoreError;

/// Rows per statement. Only these sizes occur, so every statement is prepared a few times and then found in the
/// cache; 64 rows of the widest table stay far below the 32,766 parameters that SQLite takes.
const SIZES: [usize; 4] = [64, 16, 4, 1];

/// Cuts a list into pieces of the sizes above, largest first.
fn pieces<T>(mut items: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = SIZES.into_iter().find(|size| *size <= items.len())?;
        let (piece, rest) = items.split_at(size);
        items = rest;
        Some(piece)
    })
}

/// `($1,$2),($3,$4)` for two rows of two columns, starting at `$first`.
fn tuples(first: usize, rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let places: Vec<_> =
            (0..columns).map(|column| format!("${}", first + row * columns + column)).collect();
        format!("({})", places.join(","))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(",")
}

/// Inserts rows of one table. `into` is the statement up to its `VALUES`, `then` what follows them.
pub(crate) async fn insert(
    connection: &mut dyn Connection,
    into: &'static str,
    rows: &[Vec<Value>],
    then: &'static str,
) -> Result<(), StoreError> {
    for piece in pieces(rows) {
        let columns = piece.first().map_or(0, Vec::len);
        let sql = format!("{into} VALUES {} {then}", tuples(1, piece.len(), columns));
        connection.run(sql.into(), piece.concat()).await?;
    }
    Ok(())
}

/// Selects by many keys. `select` is the statement up to its `IN`, `then` what follows the list.
pub(crate) async fn select_in(
    connection: &mut dyn Connection,
    select: &'static str,
    keys: &[Vec<Value>],
    then: &'static str,
) -> Result<Vec<Row>, StoreError> {
    let mut found = Vec::new();
    for piece in pieces(keys) {
        let columns = piece.first().map_or(0, Vec::len);
        let sql = format!("{select} IN (VALUES {}) {then}", tuples(1, piece.len(), columns));
        found.extend(connection.rows(sql.into(), piece.concat()).await?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_one_piece() {
        for count in [0, 1, 3, 4, 5, 63, 64, 65, 200] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(pieces(&items).flatten().copied().collect::<Vec<_>>(), items);
            assert!(pieces(&items).all(|piece| SIZES.contains(&piece.len())));
        }
        assert_eq!(tuples(1, 2, 3), "($1,$2,$3),($4,$5,$6)");
    }
}
