//! The device allocator: nanoseconds for an allocation and its free, on the simulated device.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tensorplay_benches::programs::{self, Calls, HOT_BYTES, MIXES, Machine, Mix, RECORDED_BYTES, THREADS};

const CALLS: [(&str, Calls); 2] = [("raw", Calls::Raw), ("owned", Calls::Owned)];

fn hot(c: &mut Criterion) {
    for (name, calls) in CALLS {
        for bytes in HOT_BYTES {
            let machine = Machine::new();
            c.bench_function(&format!("alloc/hot/{name}/{bytes} B"), |b| {
                b.iter(|| machine.pair(black_box(bytes), calls));
            });
        }
    }
}

fn mixed(c: &mut Criterion) {
    for (name, calls) in CALLS {
        for (sizes, low, high) in MIXES {
            let machine = Machine::new();
            let mut mix = Mix::new(&machine, calls, low, high, 1);
            (0..3 * programs::MIX_STEPS).for_each(|_| mix.step());
            c.bench_function(&format!("alloc/mix of 1000 live/{name}/{sizes}"), |b| b.iter(|| mix.step()));
        }
    }
}

fn threads(c: &mut Criterion) {
    for (sizes, low, high) in MIXES {
        for threads in THREADS {
            let machine = Machine::new();
            let seeds = 1..=threads as u32;
            let mut mixes: Vec<_> =
                seeds.map(|seed| Mix::new(&machine, Calls::Raw, low, high, seed)).collect();
            let streams: Vec<_> = mixes.iter().map(|_| machine.stream().0).collect();
            programs::on_threads(&machine, &mut mixes, &streams, 3 * programs::MIX_STEPS as u64);
            c.bench_function(&format!("alloc/own streams/{threads} threads/{sizes}"), |b| {
                b.iter_custom(|steps| programs::on_threads(&machine, &mut mixes, &streams, steps));
            });
        }
    }
}

fn record_stream(c: &mut Criterion) {
    let machine = Machine::new();
    let (stream, handle) = machine.stream();
    c.bench_function("alloc/record_stream/none", |b| {
        b.iter(|| machine.pair(black_box(RECORDED_BYTES), Calls::Owned));
    });
    c.bench_function("alloc/record_stream/complete each", |b| {
        b.iter(|| {
            machine.recorded_pair(stream);
            machine.complete(handle);
        });
    });
    let mut pairs = 0_u32;
    c.bench_function("alloc/record_stream/complete each 100", |b| {
        b.iter(|| {
            machine.recorded_pair(stream);
            pairs = pairs.wrapping_add(1);
            if pairs.is_multiple_of(100) {
                machine.complete(handle);
            }
        });
    });
}

/// What an entry of the history costs beyond the step that it is of.
fn history(c: &mut Criterion) {
    let machines = [Machine::new(), Machine::new()];
    let [mut plain, mut recorded] = machines.each_ref().map(|machine| {
        let (_, low, high) = MIXES[1];
        let mut mix = Mix::new(machine, Calls::Raw, low, high, 1);
        (0..3 * programs::MIX_STEPS).for_each(|_| mix.step());
        mix
    });
    machines[1].record_history(10_000);
    c.bench_function("alloc/history/an event", |b| {
        b.iter_custom(|events| programs::history(&mut plain, &mut recorded, events));
    });
}

criterion_group!(benches, hot, mixed, threads, record_stream, history);
criterion_main!(benches);
