"""`python -m ingot.serve`: OpenAI's routes over a batcher, asked by HTTP as callers do."""

import base64
import concurrent.futures
import gc
import http.client
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import tokenizers
import torch
import transformers
from llm_architectures import small

import ingot.llm

uvicorn = pytest.importorskip("uvicorn")
KEY = "a key"
TEMPLATE = "{% if tools %}<tools>{{ tools | map(attribute='function.name') | join }}{% endif %}{% for m in messages %}{% if m.role == 'robot' %}{{ raise_exception('no robots') }}{% endif %}<{{ m.role }}>{{ m.content or '' }}{% for c in m.tool_calls or [] %}({{ c.function.arguments.city }}){% endfor %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model with a tokenizer of bytes and a chat template."""
    where = tmp_path_factory.mktemp("model")
    small("Llama").save_pretrained(where)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={c: n for n, c in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), tokenizers.decoders.ByteLevel()
    tokenizer.add_tokens([f"w{n} " for n in range(256)])
    tokenizer.save(str(where / "tokenizer.json"))
    (where / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return where


@pytest.fixture(scope="module")
def lm(folder):
    return ingot.llm.compile(folder, max_length=256, max_batch=8, deterministic="batch")


@pytest.fixture(scope="module")
def encoder(folder, tmp_path_factory):
    where = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    transformers.BertModel(transformers.BertConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, vocab_size=512, max_position_embeddings=64)).save_pretrained(where)
    (where / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    return ingot.llm.compile_encoder(where, max_length=64)


@pytest.fixture(scope="module")
def port(lm, encoder):
    from ingot.serve import application

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(application(lm, encoder=encoder, name="small", encoder_name="vectors", api_key=KEY, max_waiting=200), port=number, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield number
    server.should_exit = True
    thread.join()


def ask(port, path, body=None, key=KEY, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    given = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **headers}
    connection.request("GET" if body is None else "POST", path, None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body), given)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def events(text):
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def expected(lm, text, count):
    tokenizer = tokenizers.Tokenizer.from_str(lm.files["tokenizer.json"])
    return tokenizer.decode([int(t) for t in lm.generate(lm.new_state(), torch.tensor([tokenizer.encode(text).ids]), max_new_tokens=count, stop=[])])


def gauge(port, name, zero_until=0.0):
    """A number of /metrics; waits for 0 until a time."""
    while True:
        lines = dict(line.split() for line in ask(port, "/metrics")[1].splitlines() if not line.startswith("#"))
        if (value := int(lines["ingot_" + name])) == 0 or time.time() >= zero_until:
            return value
        time.sleep(0.1)


def test_completions(lm, port):
    status, answer = ask(port, "/v1/completions", {"model": "small", "prompt": "Once upon", "max_tokens": 12, "temperature": 0})
    found = json.loads(answer)
    assert status == 200 and found["choices"] == [{"index": 0, "text": expected(lm, "Once upon", 12), "logprobs": None, "finish_reason": "length"}]
    assert found["usage"] == {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21} and found["object"] == "text_completion"


def test_streams_have_the_same_text(lm, port):
    asked = {"prompt": "Once upon", "max_tokens": 12, "temperature": 0, "stream": True}
    parts = events(ask(port, "/v1/completions", asked)[1])
    assert "".join(p["choices"][0]["text"] for p in parts) == expected(lm, "Once upon", 12)
    assert [p["choices"][0]["finish_reason"] for p in parts][-1] == "length" and len(parts) > 1  # tokens that wait for a slow reader are sent together


def test_chats(lm, port):
    messages = [{"role": "user", "content": "Hi"}]
    said = expected(lm, "<user>Hi<assistant>", 8)
    asked = {"messages": messages, "max_completion_tokens": 8, "temperature": 0}
    assert json.loads(ask(port, "/v1/chat/completions", asked)[1])["choices"][0]["message"] == {"role": "assistant", "content": said}
    parts = events(ask(port, "/v1/chat/completions", {**asked, "stream": True})[1])
    deltas = [p["choices"][0]["delta"] for p in parts]
    assert deltas[0]["role"] == "assistant" and "".join(d.get("content", "") for d in deltas) == said and parts[0]["object"] == "chat.completion.chunk"


def test_tools_are_given_to_the_template(lm, port):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    parts = [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "1", "content": "sun"}]
    asked = {"messages": messages, "tools": tools, "max_tokens": 8, "temperature": 0}
    conversation = "<user>Hi<assistant>(Rome)<tool>sun<assistant>"
    for how, begin in (({}, "<tools>weather"), ({"tool_choice": "none"}, "")):
        answer = json.loads(ask(port, "/v1/chat/completions", {**asked, **how})[1])
        assert answer["choices"][0]["message"]["content"] == expected(lm, begin + conversation, 8)


def test_several_answers_and_prompts(lm, port):
    asked = {"prompt": ["Once", "upon"], "n": 2, "max_tokens": 6, "temperature": 0.9, "seed": 5}
    found = json.loads(ask(port, "/v1/completions", asked)[1])
    assert [c["index"] for c in found["choices"]] == [0, 1, 2, 3] and found["usage"] == {"prompt_tokens": 8, "completion_tokens": 24, "total_tokens": 32}
    for n, choice in enumerate(found["choices"]):  # the seed of a prompt's answers counts up
        alone = {"prompt": asked["prompt"][n // 2], "max_tokens": 6, "temperature": 0.9, "seed": 5 + n % 2}
        assert json.loads(ask(port, "/v1/completions", alone)[1])["choices"][0]["text"] == choice["text"]
    parts = events(ask(port, "/v1/completions", {**asked, "stream": True, "stream_options": {"include_usage": True}})[1])
    assert parts[-1]["usage"] == found["usage"] and parts[-1]["choices"] == []
    for n, choice in enumerate(found["choices"]):
        assert "".join(p["choices"][0]["text"] for p in parts[:-1] if p["choices"][0]["index"] == n) == choice["text"]


def test_logprobs(lm, port):
    ids = torch.tensor([list(tokenizers.Tokenizer.from_str(lm.files["tokenizer.json"]).encode("Once").ids)])
    run = lm.generate(lm.new_state(), ids, max_new_tokens=5, stop=[], logprobs=3)
    values = [float(run.logprobs.chosen[0]) for _ in run]
    plain = json.loads(ask(port, "/v1/completions", {"prompt": "Once", "max_tokens": 5, "temperature": 0, "logprobs": 3})[1])["choices"][0]
    said = plain["logprobs"]
    assert said["token_logprobs"] == pytest.approx(values, abs=1e-4) and len(said["tokens"]) == 5 and said["text_offset"][0] == 0
    assert all(len(likeliest) <= 3 and math.isclose(max(likeliest.values()), value, abs_tol=1e-4) for likeliest, value in zip(said["top_logprobs"], values))
    asked = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5, "temperature": 0, "logprobs": True, "top_logprobs": 2}
    content = json.loads(ask(port, "/v1/chat/completions", asked)[1])["choices"][0]["logprobs"]["content"]
    assert len(content) == 5 and all(len(one["top_logprobs"]) == 2 and one["logprob"] == one["top_logprobs"][0]["logprob"] <= 0 for one in content)
    parts = events(ask(port, "/v1/chat/completions", {**asked, "stream": True})[1])
    assert [one for p in parts for one in p["choices"][0]["logprobs"]["content"]] == content


def test_embeddings(encoder, port):
    texts = ["Once upon", "a time"]
    found = json.loads(ask(port, "/v1/embeddings", {"input": texts})[1])
    assert found["usage"] == {"prompt_tokens": 15, "total_tokens": 15} and found["model"] == "vectors"
    vectors = torch.tensor([one["embedding"] for one in found["data"]])
    torch.testing.assert_close(vectors, encoder.embed(texts))
    packed = json.loads(ask(port, "/v1/embeddings", {"input": texts, "encoding_format": "base64"})[1])["data"]
    for one, vector in zip(packed, vectors):
        torch.testing.assert_close(torch.frombuffer(bytearray(base64.b64decode(one["embedding"])), dtype=torch.float32), vector)
    ids = list(tokenizers.Tokenizer.from_str(encoder.files["tokenizer.json"]).encode("a time").ids)
    torch.testing.assert_close(torch.tensor(json.loads(ask(port, "/v1/embeddings", {"input": ids})[1])["data"][0]["embedding"]), vectors[1])


def test_the_client_of_openai(lm, encoder, port):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, max_retries=0)
    assert [one.id for one in client.models.list()] == ["small", "vectors"]
    text = expected(lm, "Once upon", 12)
    answer = client.completions.create(model="small", prompt="Once upon", max_tokens=12, temperature=0, logprobs=2)
    assert answer.choices[0].text == text and answer.usage.completion_tokens == 12 and len(answer.choices[0].logprobs.tokens) == 12
    assert client.completions.create(model="small", prompt="Once upon", max_tokens=12, temperature=0, stop=text[4:6]).choices[0].finish_reason == "stop"
    drawn = [client.completions.create(model="small", prompt="a", max_tokens=8, temperature=1, seed=3, n=2) for _ in range(2)]
    assert [c.text for c in drawn[0].choices] == [c.text for c in drawn[1].choices] and drawn[0].choices[0].text != drawn[0].choices[1].text

    said = expected(lm, "<user>Hi<assistant>", 8)
    asked = dict(model="small", messages=[{"role": "user", "content": "Hi"}], max_completion_tokens=8, temperature=0)
    assert client.chat.completions.create(**asked).choices[0].message.content == said
    parts = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}, logprobs=True, top_logprobs=1))
    assert "".join(p.choices[0].delta.content or "" for p in parts if p.choices) == said and parts[-1].usage.total_tokens == 27
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
    assert client.chat.completions.create(**asked, tools=[tool]).choices[0].message.content == expected(lm, "<tools>weather<user>Hi<assistant>", 8)

    vectors = client.embeddings.create(model="vectors", input=["Once upon", "a time"])
    torch.testing.assert_close(torch.tensor([one.embedding for one in vectors.data]), encoder.embed(["Once upon", "a time"]))
    with pytest.raises(openai.BadRequestError, match="over max_length"):
        client.completions.create(model="small", prompt="a", max_tokens=9999)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="another", max_retries=0).models.list()
    with client.completions.create(model="small", prompt="a", max_tokens=200, temperature=0, stream=True) as stream:
        next(iter(stream))
    assert gauge(port, "requests_running", time.time() + 60) == 0


def test_stop_words(lm, port):
    text = expected(lm, "Once upon", 30)
    word = text[10:13]
    status, answer = ask(port, "/v1/completions", {"prompt": "Once upon", "max_tokens": 30, "temperature": 0, "stop": ["never there", word]})
    assert json.loads(answer)["choices"][0] == {"index": 0, "text": text[: text.index(word)], "logprobs": None, "finish_reason": "stop"}


def test_schemas(port):
    pytest.importorskip("llguidance")
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    status, answer = ask(port, "/v1/completions", {"prompt": "Is it?", "max_tokens": 60, "temperature": 0, "response_format": form})
    assert status == 200 and type(json.loads(json.loads(answer)["choices"][0]["text"])["yes"]) is bool


def test_wrong_requests(port):
    for status, path, body, said in [
        (400, "/v1/completions", {"prompt": "a", "max_tokens": 9999}, "over max_length"),
        (400, "/v1/completions", {"prompt": [100000], "max_tokens": 1}, "outside of the vocabulary"),
        (400, "/v1/completions", {"prompt": "a", "temperature": -1}, "temperature is -1"),
        (400, "/v1/completions", {"prompt": []}, "prompt"),
        (400, "/v1/completions", {"prompt": "a", "n": 0}, "n:"),
        (400, "/v1/completions", {"prompt": ["a", "b"], "n": 128}, "256 answers are asked for at once, and at most 200"),
        (400, "/v1/completions", {"prompt": "a", "presence_penalty": 0.5}, "presence_penalty"),
        (400, "/v1/completions", {"prompt": "a", "logprobs": 21}, "logprobs"),
        (400, "/v1/completions", {"prompt": ["a", ""], "max_tokens": 1}, "ids are"),
        (400, "/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "text alone is taken"),
        (400, "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2}, "top_logprobs needs logprobs"),
        (400, "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"}, "tool_choice"),
        (400, "/v1/chat/completions", {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]}, "no JSON"),
        (400, "/v1/embeddings", {"input": []}, "input"),
        (400, "/v1/embeddings", {"input": "a" * 65}, "65 tokens, and the encoder takes 1 to 64"),
        (400, "/v1/embeddings", {"input": "a", "dimensions": 16}, "dimensions is 16, and the vectors have 32"),
        (400, "/v1/completions", {}, "prompt"),
        (400, "/v1/completions", "{not JSON", "JSON"),
        (400, "/v1/completions", {"prompt": "a", "response_format": {"type": "xml"}}, "response_format"),
        (400, "/v1/completions", {"prompt": "a", "adapter": "none of them"}, "adapter"),
        (400, "/v1/chat/completions", {"messages": [{"role": "robot", "content": "a"}]}, "no robots"),
        (400, "/v1/chat/completions", {"messages": []}, "messages"),
    ]:
        found = ask(port, path, body)
        assert found[0] == status and said in json.loads(found[1])["error"]["message"], found
    assert ask(port, "/v1/completions", {"prompt": "a"}, key="another")[0] == 401 and ask(port, "/v1/models", key="")[0] == 401
    assert ask(port, "/v1/completions", b"x" * ((4 << 20) + 1))[0] == 413
    assert ask(port, "/v1/nothing", {})[0] == 404


def test_many_streams_half_of_them_cut_off(lm, port):
    whole = expected(lm, "a", 40)

    def stream(n):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        body = json.dumps({"prompt": "a", "max_tokens": 40, "temperature": 0, "stream": True})
        connection.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"})
        answer = connection.getresponse()
        if n % 2:
            answer.fp.readline()
            connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()
            return whole
        return "".join(part["choices"][0]["text"] for part in events(answer.read().decode()))

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        assert set(pool.map(stream, range(200))) == {whole}
    end = time.time() + 60
    assert gauge(port, "requests_running", end) == gauge(port, "requests_waiting", end) == 0
    assert json.loads(ask(port, "/health")[1]) == {"status": "ok"} and json.loads(ask(port, "/v1/models")[1])["data"][0]["id"] == "small"
    used = lm._caches.pool.used - len(lm._caches._runners)
    batcher = next(one for one in gc.get_objects() if isinstance(one, ingot.llm.Batcher) and one._lm is lm)
    assert used == len({page for kept in batcher._kept._kept.values() for page in kept.state._memory.rows[0]})  # those of requests that ended, and no other


def test_a_caller_who_does_not_wait_for_the_answer(port):
    before = gauge(port, "generation_tokens_total")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = json.dumps({"prompt": "a", "max_tokens": 250, "temperature": 0})
    connection.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"})
    time.sleep(0.05)
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    time.sleep(0.05)
    assert gauge(port, "requests_running", time.time() + 60) == 0 and gauge(port, "generation_tokens_total") - before < 250


def test_the_command(lm, folder, tmp_path):
    """It listens on this machine alone, and ends well on SIGTERM."""
    lm.save(tmp_path / "m.ingot")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "ingot.serve", tmp_path / "m.ingot", "--port", str(port)], env={**os.environ, "INGOT_API_KEY": KEY}, stderr=subprocess.PIPE, text=True)
    try:
        end = time.time() + 60
        while time.time() < end and server.poll() is None:
            try:
                found = ask(port, "/v1/completions", {"prompt": "a", "max_tokens": 3, "temperature": 0})
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        assert found[0] == 200 and json.loads(found[1])["model"] == "m" and json.loads(found[1])["choices"][0]["text"] == expected(lm, "a", 3)
    finally:
        server.send_signal(signal.SIGTERM)
        problem = server.communicate(timeout=60)[1]
    assert server.returncode in (0, -signal.SIGTERM) and not problem, problem


def test_what_the_command_refuses(tmp_path):
    done = subprocess.run([sys.executable, "-m", "ingot.serve", tmp_path / "none.ingot"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("ingot.serve: ") and "none.ingot" in done.stderr
