//! In which order nodes and hooks run.

use std::sync::{Arc, Mutex};

use aten::Tensor;
use tensorplay_autograd::{BackwardOptions, GradOptions, Node, TensorAutograd, backward_with, grad_with};

use crate::leaf;
use crate::live::none_left;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn say(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join("\n")
    }
}

fn number(tensor: &Option<Tensor>) -> String {
    tensor.as_ref().map_or("None".to_owned(), |tensor| tensor.item().unwrap().to_string())
}

/// Logs each node below `node` as it runs.
fn log_nodes(node: &Node, log: &Log, seen: &mut Vec<Node>) {
    if seen.iter().any(|other| other.is_same(node)) {
        return;
    }
    seen.push(node.clone());
    let (name, log_of_node) = (node.name().to_owned(), log.clone());
    node.register_prehook(move |_| {
        log_of_node.say(name.clone());
        Ok(None)
    });
    node.next_functions().iter().flatten().for_each(|edge| log_nodes(&edge.node, log, seen));
}

#[test]
fn the_newest_node_runs_first_and_accumulators_as_soon_as_they_can() {
    none_left(|| {
        let (x, y) = (leaf(&[2.0]), leaf(&[3.0]));
        let p = x.mul(&y).unwrap();
        let q = x.mul(&p).unwrap();
        let r = y.mul_scalar(2.0).unwrap().mul(&q).unwrap();
        let s = q.mul(&r).unwrap().add(&p).unwrap();
        let log = Log::default();
        log_nodes(&s.grad_fn().unwrap().unwrap(), &log, &mut Vec::new());
        s.backward().unwrap();
        insta::assert_snapshot!(log.take(), @"
        AddBackward0
        MulBackward0
        MulBackward0
        MulBackward1
        MulBackward0
        MulBackward0
        AccumulateGrad
        AccumulateGrad
        ");
    });
}

/// A chain `c = 3 b`, `b = 2 a` with hooks of every kind, all of which log.
struct Chain {
    a: Tensor,
    b: Tensor,
    c: Tensor,
    log: Log,
}

fn chain() -> Chain {
    let a = leaf(&[1.0]);
    let b = a.mul_scalar(2.0).unwrap();
    let c = b.mul_scalar(3.0).unwrap();
    b.retain_grad().unwrap();
    let log = Log::default();
    let node = b.grad_fn().unwrap().unwrap();
    // Hooks of nodes are registered first, and yet come after those of tensors.
    let own = log.clone();
    node.register_prehook(move |taken| {
        own.say(format!("b prehook {}", number(&taken[0])));
        Ok(Some(vec![Some(taken[0].as_ref().unwrap().mul_scalar(10.0)?)]))
    });
    let own = log.clone();
    node.register_hook(move |given, taken| {
        own.say(format!("b posthook {} from {}", number(&given[0]), number(&taken[0])));
        Ok(None)
    });
    let own = log.clone();
    b.register_hook(move |gradient| {
        own.say("b tensor hook 1");
        Ok(Some(gradient.mul_scalar(2.0)?))
    })
    .unwrap();
    let own = log.clone();
    b.register_hook(move |gradient| {
        own.say(format!("b tensor hook 2 {}", gradient.item()?));
        Ok(None)
    })
    .unwrap();
    hooks_of_leaf(&a, &node.next_functions()[0].as_ref().unwrap().node, &log);
    let own = log.clone();
    c.register_hook(move |_| {
        own.say("c tensor hook");
        Ok(None)
    })
    .unwrap();
    Chain { a, b, c, log }
}

fn hooks_of_leaf(a: &Tensor, accumulator: &Node, log: &Log) {
    let own = log.clone();
    accumulator.register_prehook(move |taken| {
        own.say(format!("a prehook {}", number(&taken[0])));
        Ok(None)
    });
    let (own, leaf) = (log.clone(), a.downgrade());
    accumulator.register_hook(move |given, taken| {
        let gradient = leaf.upgrade().and_then(|leaf| leaf.grad());
        own.say(format!(
            "a posthook {} given, from {}, has {}",
            given.len(),
            number(&taken[0]),
            number(&gradient)
        ));
        Ok(None)
    });
    let own = log.clone();
    a.register_post_accumulate_grad_hook(move |leaf| {
        own.say(format!("a post accumulate hook {}", number(&leaf.grad())));
        Ok(())
    })
    .unwrap();
    let own = log.clone();
    a.register_hook(move |gradient| {
        own.say(format!("a tensor hook {}", gradient.item()?));
        Ok(None)
    })
    .unwrap();
}

#[test]
fn hooks_of_tensors_come_before_those_of_nodes() {
    none_left(|| {
        let Chain { b, c, log, .. } = chain();
        c.backward().unwrap();
        log.say(format!("b retained {}", number(&b.grad())));
        insta::assert_snapshot!(log.take(), @"
        c tensor hook
        b tensor hook 1
        b tensor hook 2 6.0
        b prehook 6.0
        b posthook 120.0 from 60.0
        a tensor hook 120.0
        a prehook 120.0
        a post accumulate hook 120.0
        a posthook 0 given, from 120.0, has 120.0
        b retained 6.0
        ");
    });
}

#[test]
fn what_is_captured_had_the_hooks_of_its_tensor_if_the_node_does_not_run() {
    none_left(|| {
        let Chain { a, b, c, log } = chain();
        let kept = GradOptions { retain_graph: Some(true), ..GradOptions::default() };
        for inputs in [&[a.clone()][..], &[b.clone()], &[a.clone(), b.clone()]] {
            let given = grad_with(&[c.clone()], inputs, kept).unwrap();
            log.say(format!("= {}\n", given.iter().map(number).collect::<Vec<_>>().join(", ")));
        }
        insta::assert_snapshot!(log.take(), @"
        c tensor hook
        b tensor hook 1
        b tensor hook 2 6.0
        b prehook 6.0
        b posthook 120.0 from 60.0
        a tensor hook 120.0
        = 120.0

        c tensor hook
        b tensor hook 1
        b tensor hook 2 6.0
        = 6.0

        c tensor hook
        b tensor hook 1
        b tensor hook 2 6.0
        b prehook 6.0
        b posthook 120.0 from 60.0
        a tensor hook 120.0
        = 120.0, 3.0
        ");
        assert!(a.grad().is_none());
    });
}

#[test]
fn backward_to_inputs_runs_their_nodes_and_no_further() {
    none_left(|| {
        let Chain { a, b, c, log } = chain();
        for input in [&a, &b] {
            let inputs = [input.clone()];
            let options = BackwardOptions {
                inputs: Some(&inputs),
                retain_graph: Some(true),
                ..BackwardOptions::default()
            };
            backward_with(&[c.clone()], options).unwrap();
            log.say(format!("= {}\n", number(&input.grad())));
        }
        insta::assert_snapshot!(log.take(), @"
        c tensor hook
        b tensor hook 1
        b tensor hook 2 6.0
        b prehook 6.0
        b posthook 120.0 from 60.0
        a tensor hook 120.0
        a prehook 120.0
        a post accumulate hook 120.0
        a posthook 0 given, from 120.0, has 120.0
        = 120.0

        c tensor hook
        b tensor hook 1
        b tensor hook 2 6.0
        b prehook 6.0
        b posthook None from 60.0
        = 12.0
        ");
    });
}

#[test]
fn a_gradient_that_leads_to_nothing_wanted_is_not_computed() {
    none_left(|| {
        let (x, y) = (leaf(&[2.0]), leaf(&[3.0]));
        let product = x.mul(&y).unwrap();
        let log = Log::default();
        let own = log.clone();
        product.grad_fn().unwrap().unwrap().register_hook(move |given, _| {
            own.say(given.iter().map(number).collect::<Vec<_>>().join(", "));
            Ok(None)
        });
        let kept = GradOptions { retain_graph: Some(true), ..GradOptions::default() };
        for input in [&x, &y] {
            grad_with(&[product.clone()], &[input.clone()], kept).unwrap();
        }
        insta::assert_snapshot!(log.take(), @"
        3.0, None
        None, 2.0
        ");
    });
}
