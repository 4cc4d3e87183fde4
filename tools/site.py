"""Hooks of mkdocs.yml: parts of the site (`make docs`) that are not pages of docs/. Needs neither torch nor a build of ingot.

The API reference is made from the signatures and docstrings in python/ingot, which griffe parses and does not import (mkdocs.yml, tools/prose.py), and from the C and C++ headers. If a page
names another (docs/modules.md, docs/decisions/0021), the name becomes a link; a missing page fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GROUPS = {
    "Compiling and running": ("compile", "ingot_backend", "Input", "Module", "save", "load", "explain", "Report", "verify", "register_kernel", "Launch"),
    "Engines and sessions": ("load_engine", "Engine", "Session", "State", "Weights"),
    "Language models": ("llm.compile", "llm.load", "llm.LanguageModel", "llm.compile_encoder", "llm.load_encoder", "llm.Encoder", "llm.State", "llm.Generation", "llm.LogProbs", "llm.Batcher", "llm.Request", "llm.hugging_face.IngotExporter", "llm.hugging_face.IngotConfig",
                        "llm.hugging_face.IngotModelForCausalLM"),
    "The machine and the tables": ("machine", "options", "ops", "include_path", "library_path"),
    "More": ("Autocast", "MutableModule", "Profile"),
}  # fmt: skip
INSIDE = {"decisions": "Decisions", "performance-notes": "Performance notes"}  # for those who change ingot: the index is in the navigation, and nothing in the search
# What people type who look for a page, besides the words that it has: for the search, where they count before titles.
WORDS = {
    "install.md": "pip install wheel conda uv platform windows macos apple arm aarch64 jetson graviton raspberry gpu cuda nvidia requirements sbom licences",
    "how_fast.md": "performance tuning speed slow benchmark warm-up warmup latency throughput optimize profiling graphs",
    "performance.md": "results charts resnet",
    "quantisation.md": "quantization quantisation quantize int8 int4 4bit 8bit weight-only torchao gptq awq fp8",
    "precision.md": "fp16 bf16 half tf32 amp autocast float16 bfloat16",
    "troubleshooting.md": "faq problem help wrong",
    "compile_time.md": "compile compiling build time cache",
    "llm.md": "llm language model text generation generate chat gpt tokens prompt decode decoder",
    "features.md": "operators supported unsupported",
    "extending.md": "contributing contribute",
    "environment.md": "logging log verbose variables debug",
    "serving.md": "docker dockerfile fastapi serving server deploy deployment production triton kubernetes container threads concurrency batching",
    "versions.md": "versions compatibility roadmap license semver deprecation release",
    "why.md": "onnx onnxruntime openvino comparison vllm alternatives",
    "weight_streaming.md": "offload offloading vram",
    "own_kernels.md": "custom op operator plugin triton",
    "models.md": "supported models timm torchvision",
    "security.md": "safe untrusted pickle",
    "migration.md": "tensorrt torch-tensorrt",
    "tutorials/hugging_face.md": "huggingface hugging face transformers llama bert generate",
    "tutorials/diffusion.md": "diffusion diffusers stable unet sdxl",
    "tutorials/vision_cpp.md": "vision image classification detection yolo cmake find_package opencv",
    "tutorials/without_python.md": "c++ cpp c embedded",
    "tutorials/dynamic_sizes.md": "dynamic shapes batch size",
    "tutorials/state.md": "kv cache",
    "tutorials/weights.md": "lora adapter refit peft",
    "tutorials/torch_compile.md": "torch.compile jit inductor backend",
    "tutorials/export_save_load.md": "export save load file pt2 aot ahead-of-time",
    "tutorials/report.md": "profile unsupported fallback",
}
HEADERS = {"C": "include/ingot/ingot.h", "C++": "include/ingot/ingot.hpp"}
SHOWN_AS = {"ingot_backend": 'torch.compile(model, backend="ingot")'}


def page_of(title: str) -> str:
    return f"reference/{title.lower().replace(' ', '-').replace('++', 'pp')}.md"


def reference() -> dict[str, str]:
    """The generated pages: path below docs/ and text. mkdocstrings puts signatures and docstrings where a page says `:::`."""
    pages = {}
    for title, names in GROUPS.items():
        lines = [f"# {title}", ""]
        for name in names:
            options = f"    options:\n      heading: '{SHOWN_AS[name]}'\n      toc_label: torch.compile\n      show_signature: false\n" if name in SHOWN_AS else ""
            lines += [f"::: ingot.{name}", options]
        pages[page_of(title)] = "\n".join(lines)
    for title, header in HEADERS.items():
        language = title.lower().replace("++", "pp")
        text = (ROOT / header).read_text()
        sections = c_sections(text) if title == "C" else cpp_sections(text)
        lines = [f"# {title}", "", f"`{header.removeprefix('include/')}`: its comments are the manual.", ""]
        for level, name, code in sections:
            lines += [f"{'#' * level} {name}", ""] * bool(name) + [f"```{language}", code, "```", ""] * bool(code)
        pages[page_of(title)] = "\n".join(lines).rstrip() + "\n"
    return pages


# -- headers


def c_sections(header: str) -> list[tuple[int, str, str]]:
    """Level, heading and code of each part of ingot.h: the text before the first `/* ---- title`, and a part for each function, with the comments and types in front of it."""
    first, *rest = re.split(r"^/\* ---- ", header.split("#ifdef __cplusplus\n}")[0], flags=re.M)
    found = [(2, "", first.strip())]
    for section in rest:
        title, _, body = section.partition("\n")
        found.append((2, title.removesuffix("*/").strip().capitalize(), ""))
        if not title.endswith("*/"):
            about, _, body = body.partition("*/")
            found.append((3, "", f"/*{about[2:]}*/"))
        parts = re.split(r"^(INGOT_API [^;]*;)", body, flags=re.M)
        for before, function in zip(parts[::2], parts[1::2]):
            found.append((3, re.search(r"(\w+)\(", function).group(1), (before + function).strip()))
        if parts[-1].strip():
            found.append((3, "", parts[-1].strip()))
    return found


def cpp_sections(header: str) -> list[tuple[int, str, str]]:
    """The same of ingot.hpp: what comes before the namespace, and a part for each class and function in it that is for users."""
    first, _, body = header.partition("\nnamespace ingot {\n")
    body = re.sub(r"^namespace detail \{.*?^\}  // namespace detail$", "", body.split("\n}  // namespace ingot")[0], flags=re.S | re.M)
    found = [(2, "", first.strip())]
    for piece in re.split(r"\n\n+(?=\S)", body.strip()):
        name = re.search(r"^(?:class|struct) (\w+)|^inline [^(]*?(\w+)\(", piece, re.M)
        found.append((2, name.group(1) or name.group(2), piece))
    return found


# -- links


def linked(markdown: str, page: str, pages: set[str]) -> str:
    """The page with names of other pages as links. Code and existing links stay as they are. page, pages: paths below docs/."""
    up = "../" * page.count("/")

    def link(match):
        name = match.group(0).removeprefix("docs/")
        target = next((p for p in sorted(pages) if p == name or re.fullmatch(r"decisions/\d{4}", name) and p.startswith(name + "-")), None)
        if target is None:
            raise SystemExit(f"docs/{page} names docs/{name}, which is not there")
        return f"[{match.group(0)}]({up}{target})"

    kept = re.compile(r"```.*?```|^ {4}.*?$|`[^`\n]*`|\[[^\]\n]*\]\([^)\n]*\)", re.S | re.M)
    named = re.compile(r"\bdocs/(?:decisions/\d{4}|[\w/-]+\.md)")
    out, last = [], 0
    for match in kept.finditer(markdown):
        out += [named.sub(link, markdown[last : match.start()]), match.group(0)]
        last = match.end()
    return "".join(out) + named.sub(link, markdown[last:])


# -- hooks that mkdocs calls


def listed(nav) -> set[str]:
    """The pages named in a navigation."""
    if isinstance(nav, str):
        return {nav}
    return {page for entry in (nav.values() if isinstance(nav, dict) else nav) for page in listed(entry)}


def unlisted(nav) -> list[str]:
    """Pages of docs/ itself that mkdocs.yml does not name: they come last among the guides."""
    return sorted({p.name for p in (ROOT / "docs").glob("*.md")} - listed(nav))


def on_config(config):
    config.nav[[next(iter(section)) for section in config.nav].index("Guides")]["Guides"] += unlisted(config.nav)
    generated = [{title: page_of(title)} for title in (*GROUPS, *HEADERS)]
    for section in config.nav:
        if "Reference" in section:
            section["Reference"] = generated + section["Reference"]
        if "Inside" in section:
            section["Inside"] += [{title: f"{folder}/index.md"} for folder, title in INSIDE.items()]
    return config


def on_files(files, config):
    from mkdocs.structure.files import File

    for path, text in reference().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    path = page.file.src_uri
    if path.split("/")[0] in INSIDE:
        page.meta["search"] = {"exclude": True}
    elif path in WORDS:
        page.meta["tags"] = WORDS[path].split()
    return linked(markdown, page.file.src_uri, {f.src_uri for f in files.documentation_pages()})
