use super::*;

/// Rows below a limit, ascending and distinct.
fn rows(
    u: &mut arbtest::arbitrary::Unstructured<'_>,
    limit: u32,
) -> arbtest::arbitrary::Result<Vec<u32>> {
    // Of the sets some are all but full and some all but empty.
    let density = u.int_in_range(0..=8)?;
    let mut rows = Vec::new();
    for row in 0..limit {
        if u.int_in_range(0..=7)? < density {
            rows.push(row);
        }
    }
    Ok(rows)
}

#[test]
fn a_set_contains_the_rows_it_was_made_of() {
    arbtest::arbtest(|u| {
        let limit = u.int_in_range(0..=300)?;
        let (rows, others) = (rows(u, limit)?, rows(u, limit)?);
        let set_of =
            |rows: &[u32]| RowSet::new(limit as usize, rows.iter().rev().chain(rows).copied());
        let mut set = set_of(&rows);
        assert_eq!(set.len(), rows.len());
        assert!(set.iter().eq(rows.iter().copied()));
        assert!((0..limit).all(|row| set.contains(row) == rows.contains(&row)));
        let bytes: Vec<u8> = set
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        assert_eq!(RowSet::from_bytes(&bytes), set);
        set.intersect(&set_of(&others));
        let both = rows.iter().filter(|row| others.contains(row));
        assert!(set.iter().eq(both.copied()));
        Ok(())
    });
}

#[test]
fn a_page_is_the_slice_of_its_order() {
    arbtest::arbtest(|u| {
        let limit = u.int_in_range(1..=1500)?;
        let rows = rows(u, limit)?;
        let set = RowSet::new(limit as usize, rows.iter().copied());
        // An order: rows by their distance from some row, so that members are spread unevenly.
        let middle = u.int_in_range(0..=limit)?;
        let mut order: Vec<u32> = (0..limit).collect();
        order.sort_by_key(|row| row.abs_diff(middle));
        let ordered: Vec<U32> = order.iter().copied().map(U32::new).collect();
        let members: Vec<u32> = order.into_iter().filter(|row| set.contains(*row)).collect();
        for _ in 0..8 {
            let start = u.int_in_range(0..=rows.len())?;
            let end = u.int_in_range(start..=rows.len())?;
            let found = set.ordered(&ordered, start..end, rows.len());
            assert_eq!(found, members[start..end], "{start}..{end}");
        }
        Ok(())
    });
}
