"""A model of transformers, from a config: by torch.compile, and ahead of time with a length that varies."""

import torch
import torch_tensorrt
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=64)
model = BertModel(config).eval()
ids, mask = torch.randint(0, 100, (2, 12)), torch.ones(2, 12, dtype=torch.int64)
with torch.no_grad():
    expected = model(ids, attention_mask=mask)
    compiled = torch.compile(model, backend="torch_tensorrt", dynamic=False, options={"truncate_long_and_double": True, "min_block_size": 1, "enabled_precisions": {torch.float}})
    torch.testing.assert_close(compiled(ids, attention_mask=mask).last_hidden_state, expected.last_hidden_state, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()

    sizes = {"min_shape": (1, 2), "opt_shape": (2, 12), "max_shape": (4, 32), "dtype": torch.int64, "shared_dims": {0: "batch", 1: "length"}}
    ahead = torch_tensorrt.compile(
        model, ir="dynamo", arg_inputs=[torch_tensorrt.Input(**sizes, name="input_ids")], kwarg_inputs={"attention_mask": torch_tensorrt.Input(**sizes, name="attention_mask")}, min_block_size=1
    )
    for rows, length in ((2, 12), (1, 30)):
        ids, mask = torch.randint(0, 100, (rows, length)), torch.ones(rows, length, dtype=torch.int64)
        torch.testing.assert_close(ahead(ids, attention_mask=mask)["last_hidden_state"], model(ids, attention_mask=mask).last_hidden_state, rtol=1e-4, atol=1e-5)
