#include "compile/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "backend/run/registry.h"
#include "base/error.h"
#include "base/text.h"

namespace ingot::compile {

namespace {

constexpr Option table[] = {
#define X(name, type, default_text, kind, sentence) {#name, #type, default_text, #kind, OptionKind::kind, sentence},
#include "compile/options.def"
#undef X
};

size_t index_of(std::string_view name) {
  for (size_t i = 0; i < std::size(table); ++i) {
    if (table[i].name == name) return i;
  }
  std::vector<std::string_view> names;
  for (const Option& o : table) names.push_back(o.name);
  Error problem(Code::invalid_option, fmt::format("there is no option \"{}\"", name));
  std::string_view near = nearest(name, names);
  std::string all;
  for (std::string_view n : names) all += (all.empty() ? "" : ", ") + std::string(n);
  throw problem.fix(near.empty() ? "the options are " + all : fmt::format("did you mean \"{}\"?", near));
}

// "cpu,cuda:sm_90": distinct targets. "auto" is the CPU, unless the caller chose otherwise.
std::optional<std::vector<Target>> parse_targets(std::string_view text) {
  if (text == "auto") return std::vector<Target>(1);
  std::vector<Target> targets;
  for (;;) {
    const std::string_view one = text.substr(0, text.find(','));
    const std::optional<Target> target = parse_target(one);
    if (!target || std::find(targets.begin(), targets.end(), *target) != targets.end()) return std::nullopt;
    targets.push_back(*target);
    if (one.size() == text.size()) return targets;
    text.remove_prefix(one.size() + 1);
  }
}

// The CPU of this name in the table of machines; null: there is none.
const Machine* row_of(std::string_view name) {
  for (const KnownMachine& k : known_machines()) {
    if (k.name == name && name.starts_with("cpu:")) return &k.machine;
  }
  return nullptr;
}

void check_value(const Option& option, std::string_view text) {
  auto refuse = [&](std::string_view wanted) { fail(Code::invalid_option, "option {} is \"{}\"; {} is needed", option.name, text, wanted); };
  if (option.type == "int") {
    int64_t v;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    const bool bytes = option.name == "memory_bytes";
    if (error != std::errc() || end != text.data() + text.size() || v < (bytes ? -1 : 0) || (!bytes && v > INT32_MAX))
      refuse(bytes ? "a number of bytes, 0 (no limit) or -1 (nine tenths of the free memory)" : "an integer of 0 or more");
  }
  if (option.type == "float") {
    double v = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(v) || v < 0) refuse("a number of 0 or more");
  }
  if (option.type == "bool" && text != "true" && text != "false") refuse("\"true\" or \"false\"");
  if (option.name == "target" && !parse_targets(text)) refuse("\"cpu\", a GPU's architecture such as \"cuda:sm_90\", \"reference\", several of them, or \"auto\"");
  if (option.name == "device" && text != "auto" && backend::find_device(text).devices == nullptr) refuse("\"cpu\", \"cuda\", \"cuda:1\", \"reference\" or \"auto\"");
  if (option.name == "dryrun" && text.empty()) refuse("true, false or the path of a file");
  if (option.name == "rounding" && text != "fused" && text != "eager") refuse("\"fused\" or \"eager\"");
  if (option.name == "deterministic" && text != "run" && text != "batch") refuse("\"run\" or \"batch\"");
  if ((option.name == "matmul_precision" || option.name == "convolution_precision") && text != "torch" && text != "ieee" && text != "tf32")
    refuse("\"torch\", \"ieee\" or \"tf32\"");
  if (option.name == "arena" && text != "session" && text != "call") refuse("\"session\" or \"call\"");
  if (option.name == "weights" && text != "embed" && text != "strip") refuse("\"embed\" or \"strip\"");
  if (option.name == "weight_dtype" && text != "none" && text != "int8") refuse("\"none\" or \"int8\"");
  if (option.name == "autocast" && text != "none" && !autocast_type(text)) refuse("\"none\", \"float16\" or \"bfloat16\"");
  if (option.name == "cache" && text != "off" && text != "read" && text != "write" && text != "readwrite") refuse("\"off\", \"read\", \"write\" or \"readwrite\"");
  if (option.name == "machine" && text != "table" && text != "measured" && !parse_machine(text) && row_of(text) == nullptr)
    refuse("\"table\", \"measured\", a row of the table such as \"cpu:avx2\", or the numbers in a plan's provenance");
  if (option.name == "fallback" && text != "torch" && text != "error") refuse("\"torch\" or \"error\"");
}

}  // namespace

std::span<const Option> option_table() { return table; }

Options::Options() {
  for (const Option& o : table) values_.emplace_back(o.default_text);
  const char* cache = std::getenv("INGOT_CACHE");  // overrides the default
  if (cache == nullptr || *cache == '\0') return;
  try {
    set("cache", cache);
  } catch (Error& e) {
    throw std::move(e).fix("unset INGOT_CACHE in the environment, or set it to one of these");
  }
}

void Options::set(std::string_view name, std::string_view text) {
  size_t i = index_of(name);
  check_value(table[i], text);
  values_[i] = text;
}

std::optional<ir::DType> autocast_type(std::string_view text) {
  const std::optional<ir::DType> type = ir::dtype_from_name(text);
  return type && ir::is_float(*type) && ir::size_of(*type) == 2 ? type : std::nullopt;
}

bool products_by_tf32(const Options& options) { return options.text("matmul_precision") == "tf32"; }

bool convolutions_by_tf32(const Options& options) {
  const std::string& own = options.text("convolution_precision");
  return own == "torch" ? products_by_tf32(options) : own == "tf32";
}

Machine machine_of(const Target& target, const Options& options) {
  const std::string& text = options.text("machine");
  if (target.kind != Target::Kind::cpu || text == "table") return machine_for(target);
  if (const Machine* row = row_of(text)) return *row;
  return parse_machine(text).value_or(machine_for(target));
}

const std::string& Options::text(std::string_view name) const { return values_[index_of(name)]; }

int64_t Options::integer(std::string_view name) const {
  const std::string& t = text(name);
  int64_t v = 0;
  std::from_chars(t.data(), t.data() + t.size(), v);
  return v;
}

double Options::number(std::string_view name) const {
  const std::string& t = text(name);
  double v = 0;
  std::from_chars(t.data(), t.data() + t.size(), v);
  return v;
}

std::vector<Target> Options::targets() const { return *parse_targets(text("target")); }

std::vector<std::string> Options::list(std::string_view name) const {
  std::vector<std::string> out;
  std::string_view rest = text(name);
  while (!rest.empty()) {
    std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (!one.empty()) out.emplace_back(one);
  }
  return out;
}

}  // namespace ingot::compile
