"""Weight streaming of a language model, as in upstream's example: the program has a keyword input that compile is not given, and its budget is set at run time."""

import torch
import torch_tensorrt
from transformers import LlamaConfig, LlamaForCausalLM

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
sizes = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, intermediate_size=256, vocab_size=128)
model = LlamaForCausalLM(LlamaConfig(**sizes, use_cache=False, attn_implementation="eager")).eval().half().to(DEVICE)
ids = torch.randint(0, 5, (1, 8), device=DEVICE)


def positions(ids):
    return torch.arange(ids.shape[1], device=DEVICE).unsqueeze(0)


def generate(model, ids, length):
    while ids.shape[1] < length:
        logits = model(ids, position_ids=positions(ids)).logits
        ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], dim=-1)
    return ids


with torch.no_grad():
    sequence = torch.export.Dim("sequence", min=1, max=16)
    program = torch.export.export(model, args=(ids,), kwargs={"position_ids": positions(ids)}, dynamic_shapes=({1: sequence}, {1: sequence}), strict=False)
    compiled = torch_tensorrt.dynamo.compile(program, inputs=[ids], device=DEVICE, enable_weight_streaming=True, min_block_size=1)
    expected = generate(compiled, ids, 12)
    assert expected.shape == (1, 12)
    torch.testing.assert_close(compiled(expected, position_ids=positions(expected)).logits, model(expected).logits, rtol=0.05, atol=0.05)
    outside = torch_tensorrt.runtime.weight_streaming(compiled)
    assert 0 < outside.device_budget <= outside.total_device_budget
    with torch_tensorrt.runtime.weight_streaming(compiled) as weights:
        for budget in (weights.get_automatic_weight_streaming_budget(), weights.total_device_budget // 10, weights.total_device_budget):
            weights.device_budget = budget
            assert torch.equal(generate(compiled, ids, 12), expected)
