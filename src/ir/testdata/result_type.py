"""Writes result_type.txt: what torch.result_type says of every pair of operand kinds.

    python src/ir/testdata/result_type.py > src/ir/testdata/result_type.txt

An operand is a dtype with its category: `t` a tensor with axes, `z` a 0-d tensor, `n` a Python number.
"""

import torch

NAMES = {
    torch.bool: "b8", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
}  # fmt: skip
NUMBERS = {"n:bool": True, "n:int": 3, "n:float": 2.5}


def operands():
    for dtype, name in NAMES.items():
        yield f"t:{name}", torch.ones(2, dtype=dtype)
        yield f"z:{name}", torch.ones((), dtype=dtype)
    yield from NUMBERS.items()


for left, a in operands():
    for right, b in operands():
        if left[0] == right[0] == "n":
            continue
        print(left, right, NAMES[torch.result_type(a, b)])
