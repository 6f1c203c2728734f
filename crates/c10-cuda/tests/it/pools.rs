//! scratch
use crate::oracle_trace::Player;

#[test]
fn scratch() {
    let Ok(path) = std::env::var("TRACE") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let env = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let mut player = Player::new(
        env("DEVICES", "1").parse().unwrap(),
        env("MIB", "64").parse().unwrap(),
        &env("CONF", ""),
    );
    for line in player.run(&text) {
        println!("{line}");
    }
}
