//! [`Mt19937`]: the random numbers of `torch_bench`, so that both sides do the same steps.
//!
//! The generator is `std::mt19937`, and [`uniform`](Mt19937::uniform) is what libstdc++'s
//! `std::uniform_real_distribution<double>` makes of it.

const STATE: usize = 624;
const SHIFT: usize = 397;

/// The Mersenne Twister of Matsumoto and Nishimura (1998), 32 bits.
#[derive(Clone, Debug)]
pub struct Mt19937 {
    state: Vec<u32>,
    next: usize,
}

impl Mt19937 {
    /// The generator of a seed.
    pub fn new(seed: u32) -> Self {
        let mut state = vec![seed];
        for i in 1..STATE as u32 {
            let last = state[i as usize - 1];
            state.push((last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i));
        }
        Self { state, next: STATE }
    }

    /// The next number.
    pub fn next_u32(&mut self) -> u32 {
        if self.next == STATE {
            self.twist();
        }
        let mut number = self.state[self.next];
        self.next += 1;
        number ^= number >> 11;
        number ^= (number << 7) & 0x9d2c_5680;
        number ^= (number << 15) & 0xefc6_0000;
        number ^ (number >> 18)
    }

    /// The next two numbers as one of `low..high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        const TWO_TO_32: f64 = 4_294_967_296.0;
        let least = f64::from(self.next_u32());
        let most = f64::from(self.next_u32());
        (least + most * TWO_TO_32) / (TWO_TO_32 * TWO_TO_32) * (high - low) + low
    }

    fn twist(&mut self) {
        for i in 0..STATE {
            let joined = (self.state[i] & (1 << 31)) | (self.state[(i + 1) % STATE] & !(1 << 31));
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + SHIFT) % STATE] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Mt19937;

    #[test]
    fn the_ten_thousandth_number_is_the_standards() {
        let mut rng = Mt19937::new(5489);
        let last = (0..10_000).map(|_| rng.next_u32()).last();
        assert_eq!(last, Some(4_123_659_995));
    }
}
