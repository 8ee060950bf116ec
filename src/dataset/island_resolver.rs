//! Lookup of islands by code, for the rows of a daily, ccu or live file.

use super::csv_table::CsvTable;
use crate::model::IslandCode;

/// Islands that are searched one by one. On a real platform, one island in five has a row on a day.
const NEAR_MAX: usize = 32;

/// Finder of islands by code, which also detects duplicates within a file. Each file has its own.
#[derive(Debug)]
pub(super) struct IslandResolver<'a> {
    /// Codes of all islands, ascending.
    codes: &'a [IslandCode],
    /// Line on which each island was found; 0 if it was not.
    lines: Vec<u64>,
    /// Position after the island found last. Files are mostly sorted, so the next island is near.
    next: usize,
    /// Whether islands.csv has faults, in which case codes may be missing.
    is_faulty: bool,
    /// Lines of rows with an unknown code, collected only if `is_faulty`.
    unknown: Vec<u64>,
}

impl<'a> IslandResolver<'a> {
    pub(super) fn new(codes: &'a [IslandCode], is_faulty: bool) -> IslandResolver<'a> {
        IslandResolver {
            codes,
            lines: vec![0; codes.len()],
            next: 0,
            is_faulty,
            unknown: Vec::new(),
        }
    }

    /// Returns one fault for all rows with an unknown code, if islands.csv has faults that may be the
    /// cause. `None` if there are no such rows, or if islands.csv has no valid island.
    pub(super) fn unknown_codes_fault(&self) -> Option<String> {
        let first = self.unknown.first().filter(|_| !self.codes.is_empty())?;
        let places = match self.unknown.len() {
            1 => format!("1, on line {first}"),
            rows => format!("{rows}, the first on line {first}"),
        };
        Some(format!(
            "codes must be in islands.csv, got rows with other codes: {places}; correct islands.csv first"
        ))
    }

    /// Returns the island of column 0, if the code is known and this is its first row.
    pub(super) fn resolve(&mut self, table: &CsvTable<'_>) -> Option<u32> {
        let code = table.code()?;
        let Some(at) = self.find(code) else {
            if self.is_faulty {
                // Counted instead of reported one by one.
                self.unknown.push(table.line());
            } else {
                table.fault(0, format!("code must be in islands.csv, got \"{code}\""));
            }
            return None;
        };
        self.next = at + 1;
        let first = std::mem::replace(&mut self.lines[at], table.line());
        if first != 0 {
            table.duplicate_fault(first);
            return None;
        }
        Some(u32::try_from(at).expect("2^32 islands fit in no memory"))
    }

    /// Searches a few islands after the one found last, then all.
    fn find(&self, code: IslandCode) -> Option<usize> {
        let mut near = (self.next..self.codes.len()).take(NEAR_MAX);
        let found = near.find(|at| self.codes[*at] >= code);
        let found = found.filter(|at| self.codes[*at] == code);
        found.or_else(|| self.codes.binary_search(&code).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_from_every_position() {
        let code = |number| IslandCode::from_number(number).unwrap();
        let codes: Vec<IslandCode> = (0..40).map(|number| code(2 * number + 1)).collect();
        let mut index = IslandResolver::new(&codes, false);
        for next in 0..=40 {
            index.next = next;
            for number in 0..82 {
                let at = usize::try_from(number / 2).unwrap();
                let want = (number % 2 == 1 && at < 40).then_some(at);
                assert_eq!(index.find(code(number)), want, "{number} from {next}");
            }
        }
    }
}
