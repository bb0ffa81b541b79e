pub fn measure(_: &mut crate::measure::Session) {}
