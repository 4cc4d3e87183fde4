"""The search of the built site, asked in a browser by the theme's own worker: the right page comes first for the words that people type."""

import functools
import http.server
import json
import shutil
import subprocess
import threading

import pytest
from blocks import ROOT
from test_site import built, pytestmark  # noqa: F401 (the reason to skip; a fixture)

SITE = ROOT / "build/site"
FIRST = {
    "install": "install", "pip": "install", "windows": "install", "arm": "install",
    "huggingface": "tutorials/hugging_face", "hugging face": "tutorials/hugging_face", "transformers": "tutorials/hugging_face", "llama": "tutorials/hugging_face", "bert": "tutorials/hugging_face",
    "diffusion": "tutorials/diffusion", "stable diffusion": "tutorials/diffusion", "diffusers": "tutorials/diffusion",
    "vision": "tutorials/vision_cpp", "cmake": "tutorials/vision_cpp", "c++": "tutorials/without_python",
    "quantization": "quantisation", "quantisation": "quantisation", "int8": "quantisation", "int4": "quantisation", "torchao": "quantisation",
    "fp16": "precision", "bf16": "precision", "mixed precision": "precision", "autocast": "precision",
    "performance": "how_fast", "slow": "how_fast", "benchmark": "how_fast", "warm-up": "how_fast",
    "docker": "serving", "fastapi": "serving", "serving": "serving", "threads": "serving",
    "logging": "environment", "environment variables": "environment",
    "gpu": "install", "onnx": "why", "openvino": "why", "vllm": "why",
    "dynamic shapes": "tutorials/dynamic_sizes", "batch size": "tutorials/dynamic_sizes", "kv cache": "tutorials/state", "lora": "tutorials/weights",
    "tensorrt": "migration", "custom op": "own_kernels", "offload": "weight_streaming", "torch.compile": "tutorials/torch_compile", "export": "tutorials/export_save_load",
    "cuda": "install", "nvidia": "install", "conda": "install", "macos": "install", "cuda graphs": "how_fast", "compile time": "compile_time",
    "llm": "llm", "language model": "llm", "chat": "llm", "yolo": "tutorials/vision_cpp", "aot": "tutorials/export_save_load", "batching": "serving", "license": "versions",
    "versions": "versions", "roadmap": "versions", "troubleshooting": "troubleshooting", "security": "security", "supported models": "models",
}  # fmt: skip
PAGE = """<!doctype html><script>
(async () => {
  const index = await (await fetch("/search/search_index.json")).json(), worker = new Worker("/assets/javascripts/workers/SCRIPT");
  const ask = (type, data, answer) => new Promise(done => {
    worker.onmessage = event => { if (event.data.type == answer) done(event.data.data); };
    worker.postMessage({type, data});
  });
  await ask(0, {...index, options: {suggest: false}}, 1);
  const found = {};
  for (const word of WORDS) found[word] = (await ask(2, word, 3)).items.map(page => page[0].location);
  await fetch("/found", {method: "POST", body: JSON.stringify(found)});
})();
</script>"""


@pytest.fixture(scope="module")
def found(built, tmp_path_factory):  # noqa: F811
    """{word: addresses below the site, best first}."""
    answer, heard = {}, threading.Event()
    script = next((SITE / "assets/javascripts/workers").glob("search.*.min.js")).name
    page = PAGE.replace("WORDS", json.dumps(list(FIRST))).replace("SCRIPT", script).encode()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            if self.path != "/ask.html":
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def do_POST(self):
            answer.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            heard.set()

        def log_message(self, *_):
            pass

    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert browser, "a browser is needed: apt install chromium"
    with http.server.ThreadingHTTPServer(("localhost", 0), functools.partial(Handler, directory=SITE)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://localhost:{server.server_port}/ask.html"
        process = subprocess.Popen([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path_factory.mktemp('browser')}", address], stderr=subprocess.DEVNULL)
        heard.wait(120)
        process.terminate()
        process.wait()
        server.shutdown()
    assert answer, "the browser did not answer"
    return answer


def test_enough_words():
    assert len(FIRST) >= 40


@pytest.mark.parametrize("word", FIRST)
def test_the_right_page_comes_first(found, word):
    assert found[word] and found[word][0].partition("#")[0] == f"{FIRST[word]}.html", found[word][:4]


def test_decisions_are_not_found(found):
    assert not [page for pages in found.values() for page in pages if page.startswith(("decisions/0", "performance-notes/0"))]
