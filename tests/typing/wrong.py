# A user's program with a mistake in each line that ends with "# wrong": a type checker finds these and no others.
import torch

import ingot
import ingot.llm

model = torch.nn.Linear(16, 4).eval()
x = torch.randn(3, 16)
ingot.compile(model, inputs=3)  # wrong
ingot.compile("model.pt2", inputs=[ingot.Input("3, 16")])  # wrong
ingot.compile(model, inputs=[x], thread=2)  # wrong
ingot.compile(model, inputs=[x], threads="two")  # wrong
ingot.compile(model, inputs=[x], options={"weights_dtype": "int8"})  # wrong
ingot.compile(3, inputs=[x])  # wrong
ingot.compile(model, kwarg_inputs=[x])  # wrong
ingot.Input((3, 16), shared_dims={"B": 0})  # wrong
ingot.Input(shapes=(3, 16))  # wrong
ingot.save(model, "model.ingot")  # wrong
ingot.load("model.ingot", target="cpu")  # wrong
ingot.load_engine(3)  # wrong
ingot.machine().threads  # wrong
ingot.compiel(model)  # wrong
ingot.llm.compile(model)  # wrong
ingot.llm.load("m.ingot").generate(x, x, max_new_tokens=2)  # wrong
ingot.llm.load("m.ingot").generate(ingot.llm.load("m.ingot").new_state(), x, max_new_tokens=2, draft=3)  # wrong
