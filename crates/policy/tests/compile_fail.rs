//! What the types rule out: each file in `ui/` tries a way around the rules and must not compile.

#[test]
fn p19_m1_c2_e3_g3_ways_around_the_rules_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
