# A user's program without a mistake: a strict type checker finds none.
import torch

import ingot
import ingot.llm
from ingot.option_types import Options

model = torch.nn.Linear(16, 4).eval()
ranged = ingot.Input(min_shape=(1, 16), opt_shape=(8, 16), max_shape=(64, 16), name="x")
compiled = ingot.compile(model, inputs=[ranged], threads=2, target=["cpu", "cuda:sm_90"], autocast=torch.float16)
options: Options = {"fallback": "error", "cache": "off", "build_seconds": 0.5}
again: ingot.Module = ingot.compile(model, torch.randn(3, 16), options=options)
by_name = ingot.compile(model, kwarg_inputs={"input": torch.randn(3, 16)})
ingot.save(compiled, "model.ingot", weights="strip")
loaded = ingot.load("model.ingot", device="cpu", threads=1)
result = loaded(torch.randn(3, 16))
engine = ingot.load_engine("model.ingot", device="cpu")
session: ingot.Session = engine.session(threads=1)
(array,) = session.run(x=[[1.0]])
report: str = str(ingot.explain(model, [ranged]))
rows: list[list[float]] = [[1.0]]
(first,) = session.run([rows])
lines: str = str(loaded.report)
threads = ingot.machine()["threads"]
folders: list[str] = [ingot.include_path(), ingot.library_path()]
try:
    ingot.compile(model, [ranged], fallback="error")
except ingot.UnsupportedError as problem:
    print(problem.message, problem.remedy)
lm: ingot.llm.LanguageModel = ingot.llm.compile("folder", max_length=512, max_batch=2, dtype=torch.bfloat16)
state: ingot.llm.State = lm.new_state(2)
run = lm.generate(state, torch.ones(2, 3), max_new_tokens=9, lengths=[3, 2], temperature=0.7, draft="prompt", schema={"type": "boolean"}, logprobs=3, adapter=None)
for token in run:
    tokens: list[int] = token.tolist()
    if run.logprobs is not None:
        likeliest: torch.Tensor = run.logprobs.ids
ended: list[bool] = run.ended
lm.add_lora("polite", "adapter", scale=0.5)
