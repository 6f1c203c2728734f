"""Writes modules.json.gz: what PyTorch's modules begin with under a seed, and what they give; its schedules; the order
of its loader. Run with PyTorch 2.15 beside the file: `python make_modules.py`."""

import gzip
import json

import torch
from torch import nn

SEED = 1234


def tensor(t):
    t = t.detach()
    data = t.reshape(-1).tolist()
    return {"dtype": str(t.dtype).removeprefix("torch."), "size": list(t.shape), "data": data}


def listed(output):
    if isinstance(output, torch.Tensor):
        return [output]
    return [t for part in output for t in listed(part)]


def case(name, make, *sizes, call=None, inputs=None):
    torch.manual_seed(SEED)
    module = make()
    state = {name: tensor(t) for name, t in module.state_dict().items()}
    module.eval()
    if inputs is None:
        inputs = [torch.randn(size) for size in sizes]
    inputs = [x.requires_grad_(x.is_floating_point()) for x in inputs]
    outputs = listed((call or (lambda m, *x: m(*x)))(module, *inputs))
    # Each element counts differently.
    sum((o * torch.arange(o.numel()).reshape(o.shape).cos()).sum() for o in outputs).backward()
    return {
        "name": name,
        "state": state,
        "inputs": [tensor(x) for x in inputs],
        "outputs": [tensor(o) for o in outputs],
        "gradients": {name: tensor(p.grad) for name, p in module.named_parameters()},
        "input_gradients": [x.grad is not None and tensor(x.grad) for x in inputs],
    }


def modules():
    torch.backends.mha.set_fastpath_enabled(False)
    yield case("linear", lambda: nn.Linear(5, 3), (2, 5))
    yield case("linear_no_bias", lambda: nn.Linear(5, 3, bias=False), (2, 4, 5))
    yield case("bilinear", lambda: nn.Bilinear(3, 4, 2), (2, 6, 3), (2, 6, 4))
    yield case("conv1d", lambda: nn.Conv1d(2, 4, 3, padding=1), (2, 2, 7))
    yield case("conv2d", lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), groups=2), (2, 4, 7, 6))
    yield case("conv2d_same", lambda: nn.Conv2d(2, 3, 3, padding="same", dilation=2), (1, 2, 7, 6))
    yield case("conv3d", lambda: nn.Conv3d(1, 2, 2), (1, 1, 3, 4, 5))
    yield case("conv_transpose1d", lambda: nn.ConvTranspose1d(2, 3, 3, stride=2), (1, 2, 4))
    yield case("conv_transpose2d", lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (1, 4, 4, 5))
    yield case("conv_transpose3d", lambda: nn.ConvTranspose3d(1, 2, 2), (1, 1, 2, 3, 2))
    yield case("max_pool1d", lambda: nn.MaxPool1d(2), (1, 2, 7))
    yield case("max_pool2d", lambda: nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), (1, 2, 7, 6))
    yield case("max_pool3d", lambda: nn.MaxPool3d(2), (1, 1, 4, 4, 5))
    yield case("avg_pool1d", lambda: nn.AvgPool1d(2), (1, 2, 7))
    yield case("avg_pool2d", lambda: nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), (1, 2, 7, 6))
    yield case("avg_pool3d", lambda: nn.AvgPool3d(2), (1, 1, 4, 4, 5))
    yield case("adaptive_avg_pool1d", lambda: nn.AdaptiveAvgPool1d(3), (1, 2, 7))
    yield case("adaptive_avg_pool2d", lambda: nn.AdaptiveAvgPool2d((3, 2)), (1, 2, 7, 5))
    yield case("adaptive_max_pool2d", lambda: nn.AdaptiveMaxPool2d((3, 2)), (1, 2, 7, 5))
    yield case("batch_norm1d", lambda: nn.BatchNorm1d(3), (4, 3, 5))
    yield case("batch_norm2d", lambda: nn.BatchNorm2d(3, momentum=None), (2, 3, 4, 5))
    yield case("batch_norm3d", lambda: nn.BatchNorm3d(2, affine=False, track_running_stats=False), (2, 2, 2, 3, 2))
    yield case("layer_norm", lambda: nn.LayerNorm((4, 5)), (3, 4, 5))
    yield case("group_norm", lambda: nn.GroupNorm(2, 6), (2, 6, 3))
    yield case("rms_norm", lambda: nn.RMSNorm(5), (3, 5))
    rows = torch.tensor([[1, 2, 0], [6, 3, 3]])
    yield case("embedding", lambda: nn.Embedding(7, 4), inputs=[rows])
    yield case("embedding_padding", lambda: nn.Embedding(7, 4, padding_idx=-1), inputs=[rows])
    attend = lambda m, q, k, v: m(q, k, v)
    yield case("attention", lambda: nn.MultiheadAttention(6, 2), (4, 3, 6), (5, 3, 6), (5, 3, 6), call=attend)
    yield case("attention_batch_first", lambda: nn.MultiheadAttention(6, 3, bias=False, batch_first=True), (3, 4, 6), call=lambda m, x: m(x, x, x))
    hidden = torch.tensor([[False, False, True, True], [False, False, False, False]])
    yield case("attention_padding", lambda: nn.MultiheadAttention(6, 2, batch_first=True), (2, 4, 6), call=lambda m, x: m(x, x, x, key_padding_mask=hidden))
    causal = torch.ones(4, 4, dtype=torch.bool).triu(1)
    yield case("attention_causal", lambda: nn.MultiheadAttention(6, 2, batch_first=True), (2, 4, 6), call=lambda m, x: m(x, x, x, attn_mask=causal))
    yield case("encoder", lambda: nn.TransformerEncoderLayer(6, 2, 8), (4, 3, 6))
    yield case("encoder_norm_first", lambda: nn.TransformerEncoderLayer(6, 2, 8, activation="gelu", batch_first=True, norm_first=True), (3, 4, 6))
    yield case("lstm", lambda: nn.LSTM(3, 4), (5, 2, 3))
    yield case("lstm_deep", lambda: nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True, dropout=0.5), (2, 5, 3), (4, 2, 4), (4, 2, 4), call=lambda m, x, h, c: m(x, (h, c)))
    yield case("gru", lambda: nn.GRU(3, 4), (5, 2, 3))
    yield case("gru_deep", lambda: nn.GRU(3, 4, num_layers=3, bias=False, bidirectional=True), (5, 3), (6, 4), call=lambda m, x, h: m(x, h))
    for name, make in activations().items():
        yield case(name, make, (3, 4))


def activations():
    return {
        "relu": nn.ReLU, "relu6": nn.ReLU6, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "silu": nn.SiLU, "mish": nn.Mish,
        "log_sigmoid": nn.LogSigmoid, "selu": nn.SELU, "hardsigmoid": nn.Hardsigmoid, "hardswish": nn.Hardswish,
        "softsign": nn.Softsign, "tanhshrink": nn.Tanhshrink, "gelu": nn.GELU,
        "gelu_tanh": lambda: nn.GELU(approximate="tanh"), "leaky_relu": nn.LeakyReLU, "elu": nn.ELU, "celu": nn.CELU,
        "softplus": nn.Softplus, "hardtanh": nn.Hardtanh, "hardshrink": nn.Hardshrink, "softshrink": nn.Softshrink,
        "softmax": lambda: nn.Softmax(dim=-1), "log_softmax": lambda: nn.LogSoftmax(dim=-1), "prelu": lambda: nn.PReLU(4),
    }


def initialisations():
    fills = {
        "uniform": lambda t: nn.init.uniform_(t, -2.0, 3.0),
        "normal": lambda t: nn.init.normal_(t, 1.0, 2.0),
        "trunc_normal": lambda t: nn.init.trunc_normal_(t, 0.5, 2.0, -1.0, 2.0),
        "trunc_normal_tail": lambda t: nn.init.trunc_normal_(t, 0.5, 2.0, 3.0, 3.5),
        "xavier_uniform": lambda t: nn.init.xavier_uniform_(t, nn.init.calculate_gain("tanh")),
        "xavier_normal": nn.init.xavier_normal_,
        "kaiming_uniform": lambda t: nn.init.kaiming_uniform_(t, mode="fan_out", nonlinearity="relu"),
        "kaiming_normal": lambda t: nn.init.kaiming_normal_(t, a=0.2),
        "selu": lambda t: nn.init.kaiming_normal_(t, nonlinearity="selu"),
    }
    for name, fill in fills.items():
        torch.manual_seed(SEED)
        yield {"name": name, "value": tensor(fill(torch.empty(4, 5, 3)))}


def losses():
    torch.manual_seed(SEED)
    scores, classes = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 2, -100, 1])
    weight, other = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    share, logs = other.sigmoid(), scores.log_softmax(1)
    all_losses = {
        "cross_entropy": (nn.CrossEntropyLoss(weight=weight, label_smoothing=0.1), scores, classes),
        "cross_entropy_sum": (nn.CrossEntropyLoss(reduction="sum", ignore_index=2), scores, classes.clamp_min(0)),
        "cross_entropy_share": (nn.CrossEntropyLoss(), scores, other.softmax(1)),
        "nll": (nn.NLLLoss(weight=weight), logs, classes),
        "mse": (nn.MSELoss(), scores, other),
        "mse_none": (nn.MSELoss(reduction="none"), scores, other),
        "l1": (nn.L1Loss(), scores, other),
        "smooth_l1": (nn.SmoothL1Loss(beta=0.5), scores, other),
        "huber": (nn.HuberLoss(delta=0.7), scores, other),
        "bce": (nn.BCELoss(), scores.sigmoid(), share),
        "bce_logits": (nn.BCEWithLogitsLoss(pos_weight=weight), scores, share),
        "kl_div": (nn.KLDivLoss(), logs, share),
        "kl_div_batch": (nn.KLDivLoss(reduction="batchmean", log_target=True), logs, other.log_softmax(1)),
    }
    for name, (loss, x, y) in all_losses.items():
        yield {"name": name, "input": tensor(x), "target": tensor(y), "output": tensor(loss(x, y))}


def schedules():
    from torch.optim import lr_scheduler as s

    made = {
        "multi_step": lambda o: s.MultiStepLR(o, [2, 5, 5], 0.5),
        "constant": lambda o: s.ConstantLR(o, 0.25, 4),
        "polynomial": lambda o: s.PolynomialLR(o, 6, 2.0),
        "lambda": lambda o: s.LambdaLR(o, lambda step: 1 / (1 + step)),
        "cosine": lambda o: s.CosineAnnealingLR(o, 3, 0.01),
        "linear": lambda o: s.LinearLR(o, 0.5, 0.9, 4),
        "one_cycle_three": lambda o: s.OneCycleLR(o, 0.5, total_steps=10, three_phase=True, anneal_strategy="linear", div_factor=5.0),
        "one_cycle": lambda o: s.OneCycleLR(o, 0.5, total_steps=10, pct_start=0.4),
    }
    for name, make in made.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
        scheduler = make(optimizer)
        values = []
        for step in range(9):
            values.append([optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]])
            optimizer.step()
            scheduler.step()
        yield {"name": name, "values": values}


def loader():
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(SEED)
    loader = DataLoader(TensorDataset(torch.arange(11)), batch_size=4, shuffle=True)
    return [[batch[0].tolist() for batch in loader] for _ in range(2)]


out = {
    "about": f"modules of PyTorch {torch.__version__.split('+')[0]} made under manual_seed({SEED}), in eval mode; written by make_modules.py",
    "modules": list(modules()),
    "initialisations": list(initialisations()),
    "losses": list(losses()),
    "schedules": list(schedules()),
    "loader": loader(),
}
with open("modules.json.gz", "wb") as file:
    file.write(gzip.compress(json.dumps(out).encode(), mtime=0))
