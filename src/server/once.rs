//! `Once`: a complaint that lasts is made once.

/// The last complaint.
#[derive(Debug, Default)]
pub(crate) struct Once(String);

impl Once {
    /// Says it, unless it is what was said last.
    pub(crate) fn say(&mut self, say: &dyn Fn(&str), complaint: String) {
        if self.0 != complaint {
            say(&complaint);
            self.0 = complaint;
        }
    }
}
