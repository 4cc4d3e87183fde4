"""Hooks of mkdocs.yml: parts of the site (`make docs`) that are not pages of docs/. Needs neither torch nor a build of ingot.

The API reference is made from the signatures and docstrings in python/ingot, which are parsed and not imported, and from the C and C++ headers. If a page names another
(docs/modules.md, docs/decisions/0021), the name becomes a link; a missing page fails the build.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python/ingot"
GROUPS = {
    "Compiling and running": ("compile", "ingot_backend", "Input", "Module", "save", "load", "explain", "Report", "verify", "register_kernel", "Launch"),
    "Engines and sessions": ("load_engine", "Engine", "Session", "State", "Weights"),
    "The machine and the tables": ("machine", "options", "ops"),
    "Language models": ("llm.compile", "llm.load", "llm.LanguageModel", "llm.State", "llm.Generation", "llm.LogProbs", "llm.hugging_face.IngotExporter", "llm.hugging_face.IngotConfig",
                        "llm.hugging_face.IngotModelForCausalLM"),
}  # fmt: skip
PACKAGES = ("", "llm.")  # those with public names, and a dot
MODULES = ("llm.hugging_face",)  # whose classes are public if GROUPS has them
INSIDE = {"decisions": "Decisions", "performance-notes": "Performance notes"}  # for those who change ingot: the index is in the navigation, and nothing in the search
# What people type who look for a page, besides the words that it has: for the search, where they count before titles.
WORDS = {
    "install.md": "pip install wheel conda uv platform windows macos arm aarch64 gpu requirements",
    "how_fast.md": "performance tuning speed slow benchmark warm-up warmup latency throughput optimize profiling",
    "performance.md": "results charts resnet",
    "quantisation.md": "quantization quantisation quantize int8 int4 4bit 8bit weight-only torchao gptq awq fp8",
    "precision.md": "fp16 bf16 half tf32 amp autocast float16 bfloat16",
    "troubleshooting.md": "faq problem help wrong",
    "environment.md": "logging log verbose variables debug",
    "serving.md": "docker dockerfile fastapi serving server deploy deployment production triton kubernetes container threads concurrency",
    "versions.md": "versions compatibility roadmap license semver deprecation release",
    "why.md": "onnx onnxruntime openvino comparison vllm alternatives",
    "weight_streaming.md": "offload offloading vram",
    "own_kernels.md": "custom op operator plugin triton",
    "models.md": "supported models timm torchvision",
    "security.md": "safe untrusted pickle",
    "migration.md": "tensorrt torch-tensorrt",
    "tutorials/hugging_face.md": "huggingface hugging face transformers llama bert generate llm gpt",
    "tutorials/diffusion.md": "diffusion diffusers stable unet sdxl",
    "tutorials/vision_cpp.md": "vision image classification cmake find_package opencv",
    "tutorials/without_python.md": "c++ cpp c embedded",
    "tutorials/dynamic_sizes.md": "dynamic shapes batch size",
    "tutorials/state.md": "kv cache",
    "tutorials/weights.md": "lora adapter refit peft",
    "tutorials/torch_compile.md": "torch.compile jit inductor backend",
    "tutorials/export_save_load.md": "export save load file pt2",
    "tutorials/report.md": "profile unsupported fallback",
}
HEADERS = {"C": "include/ingot/ingot.h", "C++": "include/ingot/ingot.hpp"}
SHOWN_AS = {"ingot_backend": 'torch.compile(model, backend="ingot")'}
ITEM = re.compile(r"(\*{0,2}[a-z]\w*(?:, \*{0,2}[a-z]\w*)*)(?: \(or (\w+)\))?: (.*)")


# -- public names and their modules


def public_names() -> dict[str, str]:
    """Each public name of `ingot` and its packages with the module that defines it."""
    found = {}
    for package in PACKAGES:
        for node in ast.parse((PACKAGE / package.replace(".", "/") / "__init__.py").read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                found.update((package + (alias.asname or alias.name), package + node.module) for alias in node.names)
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_TORCH":
                found.update(ast.literal_eval(node.value))
    for module in MODULES:
        classes = [node for node in ast.parse((PACKAGE / module.replace(".", "/")).with_suffix(".py").read_text()).body if isinstance(node, ast.ClassDef)]
        found.update((f"{module}.{node.name}", module) for node in classes if f"{module}.{node.name}" in GROUPS["Language models"])
    return found


def definition(name: str, module: str):
    """The class or function of that name; None for a name that is neither."""
    path = PACKAGE / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return next((node for node in ast.parse(path.read_text()).body if isinstance(node, kinds) and node.name == name.rpartition(".")[2]), None)


def groups() -> dict[str, list[str]]:
    """The names of each page; names without a group come last. Errors have their own page (docs/errors.md)."""
    names = public_names()
    known = {name for group in GROUPS.values() for name in group}
    missing = known - set(names)
    if missing:
        raise SystemExit(f"tools/site.py names {', '.join(sorted(missing))}, which ingot does not have: take it out of GROUPS")
    rest = sorted(name for name, module in names.items() if name not in known and module != "errors")
    return {title: list(group) for title, group in GROUPS.items()} | ({"More": rest} if rest else {})


# -- one definition as Markdown


def signature(name: str, function: ast.FunctionDef, method: bool) -> str:
    """`name(arguments) -> result`, with one argument per line if it is long."""
    arguments = function.args
    if method and (arguments.posonlyargs or arguments.args):
        (arguments.posonlyargs or arguments.args).pop(0)
    inside = ast.unparse(arguments)
    result = f" -> {ast.unparse(function.returns)}".replace("'", "").replace('"', "") if function.returns else ""
    if len(name) + len(inside) + len(result) < 100:
        return f"{name}({inside}){result}"
    parameters = [ast.unparse(ast.parse(f"def f({one}): pass").body[0].args) if "*" != one else "*" for one in split(inside)]
    return f"{name}(\n    " + ",\n    ".join(parameters) + f",\n){result}"


def split(arguments: str) -> list[str]:
    """The text of arguments, split at the commas outside of brackets and quotes."""
    parameters, depth, start, quote = [], 0, 0, ""
    for at, char in enumerate(arguments):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parameters.append(arguments[start:at].strip())
            start = at + 1
    return [*parameters, arguments[start:].strip()]


def prose(text: str) -> str:
    """A docstring as Markdown. Lines `name: what it is` become a list; a line that is indented deeper than an item continues it."""
    out, item = [], None
    for line in inspect.cleandoc(text).splitlines():
        words, indent = line.strip(), len(line) - len(line.lstrip())
        match = ITEM.fullmatch(words)
        if not words:
            item = None
            out.append("")
        elif words == "Arguments:":
            out += ["**Arguments**", ""]
        elif match and (item is None or indent <= item):
            names = ", ".join(f"`{name}`" for name in match.group(1).split(", ")) + (f" (or `{match.group(2)}`)" if match.group(2) else "")
            if item is None and out and out[-1]:
                out.append("")
            out.append(f"- {names}: {match.group(3)}")
            item = indent
        elif item is not None and (indent > item or indent == item == 0):
            out.append("  " + words)
        else:
            if item is not None:
                out.append("")
            item = None
            out.append(words)
    return "\n".join(out)


def constructor(node: ast.ClassDef, doc: str) -> ast.FunctionDef | None:
    """What a caller calls: a dataclass's fields, or `__init__` where the docstring explains its arguments. Other classes are made by functions."""
    if any("dataclass" in ast.unparse(d) for d in node.decorator_list):
        fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
        text = ", ".join(ast.unparse(f.target) + (f"={ast.unparse(f.value)}" if f.value else "") for f in fields)
        return ast.parse(f"def __init__(self, {text}): pass").body[0]
    return next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__" and "Arguments:" in doc), None)


def described(name: str, node, level: int = 2) -> list[str]:
    """The heading, the signature and the docstring of a function or a class, and of a class's public methods."""
    doc = ast.get_docstring(node, clean=False) or ""
    lines = [f"{'#' * level} {name.rpartition('.')[2] if level > 2 else SHOWN_AS.get(name, name)}", ""]
    if isinstance(node, ast.ClassDef):
        methods = [n for n in node.body if isinstance(n, ast.FunctionDef)]
        made = constructor(node, doc)
        lines += ["```python", signature(f"class ingot.{name}", made, True) if made else f"class ingot.{name}", "```", "", prose(doc), ""]
        for method in methods:
            if not method.name.startswith("_") and ast.get_docstring(method):
                lines += described(f"{name}.{method.name}", method, level + 1)
        return lines
    decorators = [ast.unparse(d) for d in node.decorator_list]
    method = level > 2
    shown = name if "property" in decorators else signature(f"ingot.{name}" if not method else name, node, method and "staticmethod" not in decorators)
    if name in SHOWN_AS:
        shown = SHOWN_AS[name]
    return [*lines, "```python", shown, "```", "", prose(doc), ""]


def reference() -> dict[str, str]:
    """The generated pages: path below docs/ and text."""
    names, pages = public_names(), {}
    for title, group in groups().items():
        lines = [f"# {title}", ""]
        for name in group:
            node = definition(name, names[name])
            if node is not None:
                lines += described(name, node)
        pages[f"reference/{title.lower().replace(' ', '-')}.md"] = "\n".join(lines).rstrip() + "\n"
    for title, header in HEADERS.items():
        language = title.lower().replace("++", "pp")
        text = (ROOT / header).read_text()
        sections = c_sections(text) if title == "C" else cpp_sections(text)
        lines = [f"# {title}", "", f"`{header.removeprefix('include/')}`: its comments are the manual.", ""]
        for level, name, code in sections:
            lines += [f"{'#' * level} {name}", ""] * bool(name) + [f"```{language}", code, "```", ""] * bool(code)
        pages[f"reference/{language}.md"] = "\n".join(lines).rstrip() + "\n"
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
    generated = [{title: f"reference/{title.lower().replace(' ', '-')}.md"} for title in groups()]
    for section in config.nav:
        if "Reference" in section:
            section["Reference"] = generated + [{title: f"reference/{title.lower().replace('++', 'pp')}.md"} for title in HEADERS] + section["Reference"]
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
