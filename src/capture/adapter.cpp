#include "capture/adapter.h"

#include <simdjson.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"

namespace ingot::capture {

namespace {

constexpr std::string_view peft_prefix = "base_model.model.";

enum class Role { down, up, alpha };

// How the name of an adapter's tensor ends. What stands before is the module; PEFT writes the adapter's own name after lora_A where it is not saved yet.
struct Ending {
  std::string_view text;
  Role role;
  bool transposed = false, named = false;
};
constexpr Ending endings[] = {
    {".lora_A", Role::down, false, true},
    {".lora_B", Role::up, false, true},
    {".lora_embedding_A", Role::down, true, true},
    {".lora_embedding_B", Role::up, true, true},
    {".lora_linear_layer.down", Role::down},
    {".lora_linear_layer.up", Role::up},
    {".lora.down", Role::down},
    {".lora.up", Role::up},
    {".lora_down", Role::down},
    {".lora_up", Role::up},
    {"_lora.down", Role::down},
    {"_lora.up", Role::up},
    {".alpha", Role::alpha},
};

struct Key {
  std::string module;     // without the ending, the wrapper's prefix and the component
  std::string component;  // of a pipeline, or ""
  Role role = Role::down;
  bool transposed = false, flat = false;  // flat: with _ for the dots
};

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<Key> parse(std::string_view name) {
  std::string_view rest = name;
  if (rest.ends_with(".weight")) rest.remove_suffix(7);
  for (const Ending& e : endings) {
    std::string_view module = rest;
    if (!module.ends_with(e.text)) {
      const size_t dot = module.rfind('.');
      if (!e.named || dot == module.npos || !module.substr(0, dot).ends_with(e.text)) continue;
      module = module.substr(0, dot);
    }
    module.remove_suffix(e.text.size());
    Key key{{}, {}, e.role, e.transposed, false};
    take_prefix(module, peft_prefix);
    for (std::string_view part : {"unet", "transformer", "text_encoder", "text_encoder_2", "text_encoder_3", "prior"}) {
      if (module.starts_with(part) && module.substr(part.size()).starts_with('.')) key.component = part;
    }
    for (std::string_view part : {"lora_unet_", "lora_transformer_", "lora_te_", "lora_te1_", "lora_te2_", "lora_te3_"}) {
      if (module.find('.') == module.npos && take_prefix(module, part)) {
        key.component = part;
        key.flat = true;
        break;
      }
    }
    key.module = module;
    // Attention processors of older diffusers: attn1.processor.to_out_lora is the layer attn1.to_out.0.
    if (const size_t at = key.module.find(".processor."); e.text.starts_with('_') && at != std::string::npos) {
      key.module.erase(at, 10);
      if (key.module.ends_with(".to_out")) key.module += ".0";
    }
    return key;
  }
  return std::nullopt;
}

// The weights of modules by the names that adapters have for them.
class Modules {
 public:
  explicit Modules(std::span<const std::string> weights) {
    for (const std::string& w : weights) {
      if (!w.ends_with(".weight")) continue;
      const std::string module = w.substr(0, w.size() - 7);
      std::string flat = module;
      std::replace(flat.begin(), flat.end(), '.', '_');
      dotted_.push_back({module, w});
      flat_.push_back({flat, w});
    }
  }

  // The weight of that module; or where the model is a part of the one compiled, of the one module whose name ends so. "": none.
  std::string find(const Key& key) const {
    std::string_view module = key.module;
    const auto& names = key.flat ? flat_ : dotted_;
    std::string found = find(names, module, key.flat ? '_' : '.');
    if (found.empty() && !key.flat && !key.component.empty() && module.size() > key.component.size() + 1) found = find(names, module.substr(key.component.size() + 1), '.');
    return found;
  }

  std::string nearest_to(const Key& key) const {
    std::vector<std::string_view> names;
    for (const auto& [module, weight] : key.flat ? flat_ : dotted_) names.push_back(module);
    const std::string_view near = nearest(key.module, names);
    return std::string(near);
  }

 private:
  using Names = std::vector<std::pair<std::string, std::string>>;

  static std::string find(const Names& names, std::string_view module, char between) {
    std::string found;
    size_t endings_found = 0;
    for (const auto& [name, weight] : names) {
      if (name == module) return weight;
      if (!module.empty() && name.size() > module.size() && name.ends_with(module) && name[name.size() - module.size() - 1] == between) {
        found = weight;
        ++endings_found;
      }
    }
    return endings_found == 1 ? found : "";
  }

  Names dotted_, flat_;
};

// What the configuration says of a module's alpha.
class Config {
 public:
  explicit Config(std::string_view text) {
    if (text.empty()) return;
    const auto error = parser_.parse(text.data(), text.size(), true).get(root_);
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    if (error != simdjson::SUCCESS) throw Error(Code::format, "the adapter's configuration is not a JSON object").fix("give the adapter_config.json that PEFT wrote");
    there_ = true;
    std::string_view kind;
    if (root_["peft_type"].get(kind) == simdjson::SUCCESS && kind != "LORA") fail(Code::unsupported, "the adapter is of type {}, and LORA is what is added to weights", kind);
    for (auto field : root_) {
      bool on = false;
      if (field.key.ends_with("use_dora") && field.value.get(on) == simdjson::SUCCESS && on)
        throw Error(Code::unsupported, "the adapter is a DoRA, which scales weights besides").fix("merge it with PEFT, and give the merged weights");
    }
  }

  bool flag(const Key& key, std::string_view name) const {
    bool on = false;
    const auto found = find(key, name);
    if (found && found->get(on) != simdjson::SUCCESS) fail(Code::format, "the adapter's configuration has a {} that is neither true nor false", name);
    return on;
  }

  std::optional<double> alpha(const Key& key) const {
    if (const auto patterns = find(key, "alpha_pattern")) {
      if (!patterns->is_object()) fail(Code::format, "the adapter's configuration has an alpha_pattern that is not an object");
      for (auto field : simdjson::dom::object(*patterns)) {
        const std::string_view pattern = field.key;
        if (pattern.find_first_of("\\^$*+?()[]{}|") != pattern.npos)
          throw Error(Code::unsupported, fmt::format("alpha_pattern \"{}\" is a regular expression, and names of modules are understood", pattern))
              .fix("merge the adapter with PEFT");
        const std::string_view module = key.module;
        if (module == pattern || (module.ends_with(pattern) && module.substr(0, module.size() - pattern.size()).ends_with('.'))) return number(field.value, "alpha_pattern");
      }
    }
    const auto alpha = find(key, "lora_alpha");
    return alpha ? std::optional(number(*alpha, "lora_alpha")) : std::nullopt;
  }

 private:
  // diffusers' metadata has the configuration of each component, "unet.lora_alpha".
  std::optional<simdjson::dom::element> find(const Key& key, std::string_view name) const {
    simdjson::dom::element out;
    if (!there_) return std::nullopt;
    if (!key.component.empty() && root_.at_key(key.component + "." + std::string(name)).get(out) == simdjson::SUCCESS && !out.is_null()) return out;
    if (root_.at_key(name).get(out) == simdjson::SUCCESS && !out.is_null()) return out;
    return std::nullopt;
  }

  static double number(simdjson::dom::element e, std::string_view name) {
    double out;
    if (e.get(out) != simdjson::SUCCESS) fail(Code::format, "the adapter's configuration has a {} that is not a number", name);
    return out;
  }

  simdjson::dom::parser parser_;
  simdjson::dom::object root_;
  bool there_ = false;
};

struct Module {
  Key key;
  std::string name;  // of its first tensor
  std::optional<size_t> tensors[3];
};

std::vector<Module> modules_of(std::span<const std::string> tensors) {
  std::map<std::string, Module> found;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].ends_with(".base_layer.weight")) continue;  // PEFT saves a table that has an adapter, as the model has it
    std::optional<Key> key = parse(tensors[i]);
    if (!key) {
      throw Error(Code::unsupported, fmt::format("the adapter's tensor \"{}\" is not part of a LoRA", tensors[i]))
          .fix(
              "names end in lora_A.weight and lora_B.weight, lora.down.weight and lora.up.weight, or lora_down.weight and lora_up.weight; merge what is of another kind into the "
              "weights");
    }
    Module& module = found[key->component + " " + key->module];
    std::optional<size_t>& place = module.tensors[static_cast<int>(key->role)];
    if (place)
      throw Error(Code::invalid_input, fmt::format("the adapter's tensors \"{}\" and \"{}\" are one matrix of one module", tensors[*place], tensors[i]))
          .fix("give one adapter at a time");
    place = i;
    if (module.name.empty()) module.name = tensors[i];
    const bool transposed = module.key.transposed || key->transposed;
    module.key = *key;
    module.key.transposed = transposed;
  }
  std::vector<Module> out;
  for (auto& [name, module] : found) out.push_back(std::move(module));
  return out;
}

}  // namespace

std::vector<AdapterPart> adapter_parts(std::span<const std::string> tensors, std::string_view config_text, std::span<const std::string> weights) {
  const Config config(config_text);
  const Modules known(weights);
  const std::vector<Module> modules = modules_of(tensors);
  if (modules.empty()) fail(Code::invalid_input, "the adapter has no tensors");
  std::map<std::string, size_t> fit;  // by component
  std::vector<std::string> found;
  for (const Module& m : modules) fit[m.key.component] += !found.emplace_back(known.find(m.key)).empty();
  const bool some_fit = std::any_of(fit.begin(), fit.end(), [](const auto& f) { return f.second > 0; });
  std::vector<AdapterPart> out;
  for (size_t i = 0; i < modules.size(); ++i) {
    const Module& m = modules[i];
    if (found[i].empty()) {
      if (some_fit && fit[m.key.component] == 0) continue;  // of another component
      Error problem(Code::invalid_input, fmt::format("the adapter's tensor \"{}\" is for a module \"{}\" that the model has not", m.name, m.key.module));
      const std::string near = known.nearest_to(m.key);
      throw problem.fix(near.empty() ? "give an adapter of this model" : fmt::format("the nearest one is \"{}\"; give an adapter of this model", near));
    }
    const auto& [down, up, alpha] = m.tensors;
    if (!down || !up) throw Error(Code::invalid_input, fmt::format("the adapter has \"{}\" without its other matrix", m.name)).fix("save the adapter again: one is missing");
    AdapterPart part{found[i], *down, *up, alpha, {}, config.flag(m.key, "use_rslora"), m.key.transposed || config.flag(m.key, "fan_in_fan_out")};
    if (!alpha) part.alpha = config.alpha(m.key);
    if (!alpha && !part.alpha && tensors[*down].starts_with(peft_prefix))
      throw Error(Code::invalid_input, fmt::format("the adapter's \"{}\" is PEFT's, whose configuration has the alpha, and there is none", tensors[*down]))
          .fix("give its adapter_config.json: next to the file, or as config");
    out.push_back(std::move(part));
  }
  std::stable_sort(out.begin(), out.end(), [](const AdapterPart& a, const AdapterPart& b) { return a.weight < b.weight; });
  for (size_t i = 1; i < out.size(); ++i) {
    if (out[i].weight == out[i - 1].weight)
      fail(Code::invalid_input, "the adapter's tensors \"{}\" and \"{}\" are both for weight \"{}\"", tensors[out[i - 1].down], tensors[out[i].down], out[i].weight);
  }
  return out;
}

OtherNames other_names(std::string_view signature) {
  OtherNames out;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::object tied;
  simdjson::dom::array unused;
  if (signature.empty() || parser.parse(signature.data(), signature.size(), true).get(root) != simdjson::SUCCESS || !root.is_object()) return out;
  std::string_view text;
  if (root["tied"].get(tied) == simdjson::SUCCESS) {
    for (auto field : tied) {
      if (field.value.get(text) == simdjson::SUCCESS) out.tied.emplace(field.key, text);
    }
  }
  if (root["unused"].get(unused) == simdjson::SUCCESS) {
    for (auto element : unused) {
      if (element.get(text) == simdjson::SUCCESS) out.unused.emplace_back(text);
    }
  }
  return out;
}

}  // namespace ingot::capture
