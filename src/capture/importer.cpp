#include "capture/importer.h"

#include <algorithm>
#include <utility>

#include "capture/expression.h"
#include "capture/origin.h"
#include "capture/signature.h"
#include "ir/strided_layout.h"
#include "ir/symbols.h"
#include "ops/operator.h"

namespace ingot::capture {

using ir::Attribute;
using ir::Dim;
using ir::Graph;
using ir::List;
using ir::Ref;
using ir::Type;
using ir::ValueId;

namespace {

constexpr int64_t known_major = 8;
constexpr std::string_view torch_only = "torch_only";  // a field of a node's metadata or of a tensor's: why nothing but torch takes it; the attribute it becomes

std::string canonical_target(std::string_view target) {
  constexpr std::string_view prefix = "torch.ops.";
  if (target.starts_with(prefix)) target.remove_prefix(prefix.size());
  return std::string(target);
}

// Calls that only assert what the recorded types already say, or mark a place in a profile.
bool says_nothing(std::string_view target) {
  for (std::string_view t : {"aten._assert_tensor_metadata.default", "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default",
                             "profiler._record_function_exit._RecordFunction", "profiler._record_function_enter_new.default"}) {
    if (target == t) return true;
  }
  return false;
}

// Stands for the type of a tensor that engines have no type for.
const TensorMeta no_type{{ir::DType::c64, {}}, {}, 0};

bool in_place(std::string_view target) {
  size_t begin = target.find('.') + 1, end = target.find('.', begin);
  std::string_view name = target.substr(begin, end - begin);
  return name.size() > 1 && name.ends_with('_') && !name.starts_with("__");
}

}  // namespace

Model Importer::run(Json program) {
  int64_t major = program.at("schema_version").at("major").integer();
  if (major != known_major) {
    throw Error(Code::version, fmt::format("the model's graph has schema version {}; this ingot reads version {}", major, known_major), {},
                "Save the model with torch 2.10 to 2.15, or use an ingot made for that torch.");
  }
  sizes_.read_ranges(program);
  Json module = program.at("graph_module"), graph = module.at("graph"), signature = module.at("signature");
  Scope scope = scope_of(graph);
  add_inputs(graph, signature, scope);
  add_guards(program, signature, scope);
  add_nodes(graph, scope);
  add_outputs(graph, signature, scope);
  find_writes();
  model_.signature = signature_text(module);
  return std::move(model_);
}

// Says whether the graph writes in place. A weight that may be written is row-major, as states are.
void Importer::find_writes() {
  std::vector<bool> written(g_.values.size(), false);
  for (const ir::Node& n : g_.nodes) {
    if (n.op != ir::Op::call || !in_place(n.attributes.string("target"))) continue;
    model_.functional = false;
    const ir::Node* at = &n;
    while (at->op == ir::Op::call && !at->in.empty() && !written[at->in[0]]) {
      written[at->in[0]] = true;
      at = &g_.producer(at->in[0]);
    }
  }
  for (ir::Weight& w : g_.weights) {
    const bool state = std::any_of(g_.outputs.begin(), g_.outputs.end(), [&](const ir::Output& o) { return o.to == ir::Output::To::weight && o.name == w.name; });
    if ((state || written[w.value]) && !w.order.empty()) make_row_major(w, g_.type(w.value));
  }
}

TensorMeta Importer::meta(Json m) {
  TensorMeta out;
  if (auto reason = m.find(torch_only)) throw Error(Code::unsupported, std::string(reason->string()));
  out.type.dtype = dtype_of(m.at("dtype").integer(), m.name());
  if (auto layout = m.find("layout"); layout && layout->integer() != 7)
    throw Error(Code::unsupported, fmt::format("{} is sparse or opaque; only strided tensors are supported", m.name())).fix("convert it with .to_dense()");
  Json sizes = m.at("sizes");
  for (auto s : sizes.array()) {
    Dim d = sizes_.size(sizes.child(s));
    if (auto c = d.constant(); c && *c < 0) fail(Code::format, "the model's JSON is damaged: a tensor has size {}", *c);
    out.type.dims.push_back(std::move(d));
  }
  if (out.type.dims.size() > 64) fail(Code::format, "the model's JSON is damaged: a tensor has {} axes", out.type.dims.size());
  if (auto strides = m.find("strides")) {
    for (auto s : strides->array()) out.strides.push_back(sizes_.size(strides->child(s)));
  }
  if (auto offset = m.find("storage_offset")) out.offset = sizes_.size(*offset);
  return out;
}

Importer::Scope Importer::scope_of(Json graph) {
  Scope scope;
  auto read = [&](const char* name, std::unordered_map<std::string_view, Json>& to) {
    if (auto all = graph.find(name)) {
      for (auto field : all->object()) to.emplace(field.key, Json(field.value, field.key));
    }
  };
  read("tensor_values", scope.metas);
  read("sym_int_values", scope.sizes);
  read("sym_bool_values", scope.bools);
  read("sym_float_values", scope.floats);
  return scope;
}

const Json& Importer::meta_named(const Scope& scope, std::string_view name) {
  auto found = scope.metas.find(name);
  if (found == scope.metas.end()) fail(Code::format, "the model's JSON is damaged: tensor \"{}\" is not described", name);
  return found->second;
}

ValueId Importer::value_named(const Scope& scope, std::string_view name) {
  auto found = scope.values.find(name);
  if (found == scope.values.end()) fail(Code::format, "the model's JSON is damaged: tensor \"{}\" is used but never made", name);
  return found->second;
}

Dim Importer::size_named(const Scope& scope, std::string_view name) {
  if (auto known = scope.known_sizes.find(name); known != scope.known_sizes.end()) return known->second;
  auto found = scope.sizes.find(name);
  if (found == scope.sizes.end()) fail(Code::format, "the model's JSON is damaged: size \"{}\" is not described", name);
  return sizes_.size(found->second);
}

void Importer::add_inputs(Json graph, Json signature, Scope& scope) {
  Json specs = signature.at("input_specs"), inputs = graph.at("inputs");
  simdjson::dom::array list = inputs.array();
  auto argument = list.begin();
  for (auto s : specs.array()) {
    std::string_view kind;
    Json spec = specs.child(s).only(kind);
    if (kind == "token" || kind == "custom_obj") {
      fail(Code::unsupported, "the model takes a {}, which is not supported", kind == "token" ? "token of ordered side effects" : "script object as a constant");
    }
    if (argument == list.end()) fail(Code::format, "the model's JSON is damaged: the signature has more inputs than the graph");
    ++argument;
    if (kind == "constant_input") continue;
    std::string_view arg_kind;
    Json arg = spec.at("arg");
    if (kind == "user_input") {
      Json given = arg.only(arg_kind);
      if (arg_kind == "as_none" || arg_kind == "as_int" || arg_kind == "as_float" || arg_kind == "as_bool" || arg_kind == "as_string") continue;  // baked in
      if (arg_kind == "as_sym_int") {
        // Found from the tensors' sizes; lower refuses what uses it when no tensor has it.
        if (auto name = given.find("as_name")) {
          sizes_.note_number(scope.known_sizes[name->string()] = size_named(scope, name->string()));
        }
        continue;
      }
      if (arg_kind != "as_tensor") fail(Code::unsupported, "an input of kind {} is not supported", arg_kind);
      std::string_view name = given.at("name").string();
      auto chosen = spec.find("name");  // the user's name for it; torch writes none
      auto [m, reason] = leaf(meta_named(scope, name));
      const ValueId v = scope.values[name] = g_.add_input(std::string(chosen ? chosen->string() : name), m.type);
      g_.values[v].order = memory_order(m);
      leave_to_torch(v, std::move(reason));
      continue;
    }
    ir::Weight weight;
    bool constant = kind == "tensor_constant";
    if (kind == "parameter") {
      weight.name = spec.at("parameter_name").string();
    } else if (kind == "buffer") {
      weight.name = spec.at("buffer_name").string();
    } else if (constant) {
      weight.name = spec.at("tensor_constant_name").string();
    } else {
      fail(Code::unsupported, "an input of kind {} is not supported", kind);
    }
    std::string_view name = arg.at("name").string();
    auto [m, reason] = leaf(meta_named(scope, name));
    if (reason.empty()) weight_source_(weight, constant, m);
    const ValueId v = scope.values[name] = g_.add_weight(std::move(weight), m.type);
    leave_to_torch(v, std::move(reason));
  }
}

// An input's or weight's meta. With a reason when it is of no type that engines have.
std::pair<TensorMeta, std::string> Importer::leaf(const Json& of) {
  try {
    return {meta(of), ""};
  } catch (const Error& e) {
    if (e.code != Code::unsupported) throw;
    return {no_type, e.message};
  }
}

// What reads the value runs in torch, for this reason.
void Importer::leave_to_torch(ValueId v, std::string reason) {
  if (reason.empty()) return;
  ir::Node& maker = g_.nodes[g_.values[v].producer];
  if (maker.op != ir::Op::call) maker.attributes.set(std::string(torch_only), reason);
  foreign_.emplace(v, std::move(reason));
}

void Importer::add_outputs(Json graph, Json signature, const Scope& scope) {
  (void)graph;
  Json specs = signature.at("output_specs");
  for (auto s : specs.array()) {
    std::string_view kind, arg_kind;
    Json spec = specs.child(s).only(kind);
    if (kind == "buffer_mutation" || kind == "user_input_mutation" || kind == "parameter_mutation") {
      bool input = kind == "user_input_mutation";
      std::string_view what = input ? "user_input_name" : kind == "buffer_mutation" ? "buffer_name" : "parameter_name";
      std::string name(spec.at(what).string());
      if (input) {  // torch's name for it; the user may have another one
        ValueId leaf = value_named(scope, name);
        for (const ir::Input& i : g_.inputs) {
          if (i.value == leaf) name = i.name;
        }
      }
      std::string_view made = spec.at("arg").at("name").string();
      g_.outputs.push_back({value_named(scope, made), std::move(name), {}, input ? ir::Output::To::input : ir::Output::To::weight});
      continue;
    }
    if (kind != "user_output") fail(Code::unsupported, "an output of kind {} is not supported", kind);
    Json arg = spec.at("arg").only(arg_kind);
    if (arg_kind == "as_none" || arg_kind == "as_int" || arg_kind == "as_float" || arg_kind == "as_bool" || arg_kind == "as_string") continue;
    if (arg_kind != "as_tensor") {
      throw Error(Code::unsupported, fmt::format("the model returns a {}, not a tensor", arg_kind == "as_sym_int" ? "size" : arg_kind), {},
                  "Return tensors only; a size can be read from the shape of an output.");
    }
    std::string_view name = arg.at("name").string();
    ir::Output output{value_named(scope, name), std::string(name), {}};
    if (auto m = scope.metas.find(name); m != scope.metas.end() && !foreign_.contains(output.value)) output.order = memory_order(meta(m->second));
    g_.outputs.push_back(std::move(output));
  }
}

ir::OriginId Importer::origin(Json node) {
  std::string_view trace, modules;
  if (auto metadata = node.find("metadata")) {
    if (auto t = metadata->find("stack_trace")) trace = t->string();
    if (auto m = metadata->find("nn_module_stack")) modules = m->string();
  }
  ir::Origin o = origin_of(trace, modules);
  o.target = canonical_target(node.at("target").string());
  if (auto name = node.find("name")) o.node = name->string();
  return g_.add_origin(std::move(o));
}

void Importer::add_nodes(Json graph, Scope& scope) {
  Json nodes = graph.at("nodes");
  for (auto n : nodes.array()) {
    Json node = nodes.child(n);
    std::string target = canonical_target(node.at("target").string());
    if (says_nothing(target)) continue;
    ir::OriginId here = g_.current_origin = origin(node);
    try {
      if (auto reason = node.find("metadata") ? node.at("metadata").find(torch_only) : std::nullopt) {
        add_opaque(node, target, std::string(reason->string()), scope);
      } else {
        size_t nodes_before = g_.nodes.size();
        try {
          if (target == "aten._assert_scalar.default") {
            add_check(node, scope);
          } else if (target.starts_with("aten._assert_async.")) {
            add_assertion(node, scope);
          } else if (target == "higher_order.cond" || target == "higher_order.while_loop") {
            add_control(node, target, scope);
          } else if (target == "aten.item.default" || target == "aten._local_scalar_dense.default") {
            add_read(node, scope);
          } else if (target.starts_with("higher_order.")) {
            inline_region(node, target, scope);
          } else {
            add_call(node, target, scope);
          }
        } catch (const Error& e) {
          // What has no form here is a node that nothing but torch can run.
          if (e.code != Code::unsupported || g_.nodes.size() != nodes_before) throw;
          add_opaque(node, target, e.message, scope);
        }
      }
    } catch (Error& e) {
      if (e.origin.empty()) e.at(g_.origins[here].text());
      throw;
    }
    g_.current_origin = ir::none_id;
  }
}

Attribute Importer::tensor(Call& call, const Scope& scope, Json arg) {
  call.in.push_back(value_named(scope, arg.at("name").string()));
  return Ref{static_cast<uint32_t>(call.in.size() - 1)};
}

Attribute Importer::argument(Call& call, const Scope& scope, Json arg) {
  std::string_view kind;
  Json v = arg.only(kind);
  auto list = [&](auto&& read) {
    List out;
    for (auto e : v.array()) out.push_back(read(v.child(e)));
    return Attribute(std::move(out));
  };
  auto dim = [](Dim d) -> Attribute {
    if (auto c = d.constant()) return *c;
    return Attribute(std::move(d));
  };
  auto sym_int = [&](Json s) -> Attribute {
    std::string_view k;
    Json value = s.only(k);
    return k == "as_name" ? dim(size_named(scope, value.string())) : Attribute(value.integer());
  };
  auto optional_tensor = [&](Json t) -> Attribute {
    std::string_view k;
    Json value = t.only(k);
    return k == "as_tensor" ? tensor(call, scope, value) : Attribute();
  };
  auto sym_float = [&](Json s) -> Attribute {
    std::string_view k;
    Json value = s.only(k);
    if (k == "as_float") return value.number();
    fail(Code::unsupported, "a number that is computed from sizes as a float (\"{}\") is not supported", value.string());
  };
  auto sym_bool = [&](Json s) -> Attribute {
    std::string_view k;
    Json value = s.only(k);
    if (k == "as_bool") return value.boolean();
    fail(Code::unsupported, "a condition on sizes (\"{}\") is used as an argument", value.string());
  };
  auto integers = [](Json e) { return Attribute(e.integer()); };
  auto numbers = [](Json e) { return Attribute(e.number()); };
  if (kind == "as_none") return {};
  if (kind == "as_tensor") return tensor(call, scope, v);
  if (kind == "as_tensors") return list([&](Json t) { return tensor(call, scope, t); });
  if (kind == "as_optional_tensor") return optional_tensor(v);
  if (kind == "as_optional_tensors") return list(optional_tensor);
  if (kind == "as_int") return v.integer();
  if (kind == "as_ints") return list(integers);
  if (kind == "as_float") return v.number();
  if (kind == "as_floats") return list(numbers);
  if (kind == "as_bool") return v.boolean();
  if (kind == "as_bools") return list([](Json e) { return Attribute(e.boolean()); });
  if (kind == "as_complex") return List{v.at("real").number(), v.at("imag").number()};
  if (kind == "as_string") return std::string(v.string());
  if (kind == "as_strings") return list([](Json e) { return Attribute(std::string(e.string())); });
  if (kind == "as_sym_int") return sym_int(v);
  if (kind == "as_sym_ints") return list(sym_int);
  if (kind == "as_sym_float") return sym_float(v);
  if (kind == "as_sym_floats") return list(sym_float);
  if (kind == "as_sym_bool") return sym_bool(v);
  if (kind == "as_sym_bools") return list(sym_bool);
  if (kind == "as_scalar_type") return dtype_of(v.integer(), "an argument");
  if (kind == "as_device") return std::string(v.at("type").string());
  if (kind == "as_layout") return std::string(v.integer() == 7 ? "strided" : "other");
  if (kind == "as_memory_format") {
    constexpr const char* names[] = {"unknown", "contiguous_format", "channels_last", "channels_last_3d", "preserve_format"};
    int64_t i = v.integer();
    if (i < 0 || i > 4) fail(Code::format, "the model's JSON is damaged: memory format number {} is unknown", i);
    return std::string(names[i]);
  }
  fail(Code::unsupported, "an argument of kind {} is not supported", kind);
}

// True if a conversion names the device that its tensor is on already.
bool Importer::stays_on_its_device(Json inputs, const Scope& scope) {
  std::optional<Json> from, to;
  for (auto i : inputs.array()) {
    Json input = inputs.child(i);
    std::string_view name = input.at("name").string(), kind;
    Json value = input.at("arg").only(kind);
    if (name == "self" && kind == "as_tensor") from = meta_named(scope, value.at("name").string()).find("device");
    if (name == "device" && kind == "as_device") to = value;
  }
  if (!from || !to || from->at("type").string() != to->at("type").string()) return false;
  auto number = [](const Json& device) { return device.at("index").is_null() ? -1 : device.at("index").integer(); };
  return number(*from) == number(*to);
}

// as_strided counts in its operand's memory. The operator definition counts in the operand's elements: row-major, or with the axes in the order that they have in
// memory. The recorded layout says how.
void Importer::count_in_elements(Call& call, Json inputs, const Scope& scope) {
  TensorMeta memory;
  for (auto i : inputs.array()) {
    Json input = inputs.child(i);
    if (input.at("name").string() == "self") memory = meta(meta_named(scope, input.at("arg").at("as_tensor").at("name").string()));
  }
  const Attribute* given = call.attributes.find("storage_offset");
  ir::StridedLayout part{call.attributes.dims("size"), call.attributes.dims("stride"),
                         given == nullptr || given->is_none() ? 0 : call.attributes.dim("storage_offset") - memory.offset};
  if (part.dims.size() != part.strides.size()) fail(Code::unsupported, "as_strided has {} sizes and {} strides", part.dims.size(), part.strides.size());
  if (ir::known_less(part.offset, 0, g_.symbols) == ir::Truth::yes) fail(Code::unsupported, "as_strided reads memory before the first element of its operand");
  const ir::StridedLayout elements = ir::row_major(memory.type.dims);
  if (memory.strides.size() != memory.type.dims.size()) memory.strides = elements.strides;  // the file does not say
  bool is_row_major = true;
  for (size_t a = 0; is_row_major && a < memory.strides.size(); ++a) is_row_major = memory.type.dims[a] == Dim(1) || memory.strides[a] == elements.strides[a];
  if (std::vector<int64_t> order = memory_order(memory); !order.empty()) {
    call.attributes.set(std::string(ops::operand_order), ir::to_attribute(order));
  } else if (!is_row_major) {
    const auto map = ir::map_between({memory.type.dims, memory.strides}, part, g_.symbols);
    if (!map) fail(Code::unsupported, "as_strided reads memory between the elements of its operand, or is not known to read its elements alone");
    part.offset = 0;
    part.strides.assign(part.dims.size(), 0);
    for (size_t a = 0; a < map->axes.size(); ++a) {
      part.offset += map->axes[a].offset * elements.strides[a];
      for (const ir::AffineMap::Term& t : map->axes[a].terms) part.strides[t.axis] += Dim(t.coefficient) * elements.strides[a];
    }
  }
  call.attributes.set("stride", ir::to_attribute(part.strides));
  call.attributes.set("storage_offset", part.offset);
}

void Importer::add_opaque(Json node, const std::string& target, std::string reason, Scope& scope) {
  Call call;
  // Every tensor among its arguments, however deep.
  auto read = [&](Json t) {
    if (auto name = t.find("name")) call.in.push_back(value_named(scope, name->string()));
  };
  auto tensors = [&](auto&& self, Json e) -> void {
    if (e.is_array()) {
      simdjson::dom::array parts = e.array();
      for (auto part : parts) self(self, e.child(part));
    } else if (e.is_object()) {
      simdjson::dom::object fields = e.object();
      for (auto field : fields) {
        Json value(field.value, field.key);
        if (field.key == "as_tensor") {
          read(value);
        } else if (field.key == "as_tensors" && value.is_array()) {
          simdjson::dom::array parts = value.array();
          for (auto part : parts) read(value.child(part));
        } else if (field.key != "as_graph") {  // a region has names of its own
          self(self, value);
        }
      }
    }
  };
  tensors(tensors, node.at("inputs"));
  call.attributes.set("target", target);
  call.attributes.set(std::string(torch_only), std::move(reason));
  std::vector<std::string_view> names;
  std::vector<Type> types;
  std::vector<std::pair<std::string_view, std::string>> foreign;
  auto result = [&](Json t) {
    std::string_view name = t.at("name").string();
    names.push_back(name);
    try {
      types.push_back(meta(meta_named(scope, name)).type);
    } catch (const Error& e) {
      if (e.code != Code::unsupported) throw;
      types.push_back(no_type.type);
      foreign.emplace_back(name, e.message);
    }
  };
  Json outputs = node.at("outputs");
  for (auto o : outputs.array()) {
    std::string_view kind;
    Json out = outputs.child(o).only(kind);
    if (kind == "as_tensor") result(out);
    if (kind == "as_tensors") {
      for (auto t : out.array()) {
        if (!out.child(t).is_null()) result(out.child(t));
      }
    }
  }
  add_results(std::move(call), names, std::move(types), scope);
  for (auto& [name, why] : foreign) leave_to_torch(scope.values[name], std::move(why));
}

void Importer::add_results(Call call, const std::vector<std::string_view>& names, std::vector<Type> types, Scope& scope) {
  ir::NodeId id = g_.add_node(ir::Op::call, std::move(call.in), std::move(call.attributes), std::move(types));
  for (size_t i = 0; i < names.size(); ++i) {
    ValueId v = g_.nodes[id].out[i];
    g_.values[v].name = names[i];
    if (is_complex(g_.type(v).dtype)) {
    } else if (auto m = scope.metas.find(names[i]); m != scope.metas.end()) {
      g_.values[v].order = order_with_gaps(meta(m->second), g_.symbols);
    }
    scope.values[names[i]] = v;
  }
}

void Importer::add_call(Json node, const std::string& target, Scope& scope) {
  // A node of sizes only has its result written down as an expression, so it disappears here.
  Json outputs = node.at("outputs");
  std::vector<std::string_view> names;
  std::vector<Type> types;
  bool sizes_only = true, any = false;
  auto result = [&](Json tensor) {
    std::string_view name = tensor.at("name").string();
    names.push_back(name);
    types.push_back(meta(meta_named(scope, name)).type);
  };
  for (auto o : outputs.array()) {
    std::string_view kind;
    Json out = outputs.child(o).only(kind);
    any = true;
    constexpr std::string_view scalars[] = {"as_sym_int", "as_sym_bool", "as_sym_float", "as_int", "as_bool", "as_float"};
    if (std::find(std::begin(scalars), std::end(scalars), kind) != std::end(scalars)) continue;
    sizes_only = false;
    if (kind == "as_tensor") {
      result(out);
    } else if (kind == "as_tensors") {
      for (auto t : out.array()) {
        if (out.child(t).is_null()) fail(Code::unsupported, "{} returns None in a list", target);
        result(out.child(t));
      }
    } else if (kind != "as_none" && kind != "as_optional_tensor") {
      fail(Code::unsupported, "{} returns a {}, which is not supported", target, kind);
    }
  }
  if (any && sizes_only) return;
  Call call;
  call.attributes.set("target", target);
  Json inputs = node.at("inputs");
  const auto metadata = node.find("metadata");
  const bool kernel = from_ == From::process && metadata && metadata->find("kernel");
  for (auto i : inputs.array()) {
    Json input = inputs.child(i);
    std::string_view name = input.at("name").string();
    if (name.starts_with("external_") && !kernel) fail(Code::unsupported, "it has an argument {}, a name that stands for kernels of the user's here", name);
    call.attributes.set(std::string(name == "target" ? ir::target_argument : name), argument(call, scope, input.at("arg")));
  }
  if (target.starts_with("aten.to.") && stays_on_its_device(inputs, scope)) call.attributes.set("device", Attribute());
  for (ValueId v : call.in) {
    if (auto found = foreign_.find(v); found != foreign_.end()) throw Error(Code::unsupported, found->second);
  }
  if (target == "aten.as_strided.default" || target == "aten.as_strided_copy.default") count_in_elements(call, inputs, scope);
  if (target == "aten.as_strided_.default") fail(Code::unsupported, "as_strided_ changes the sizes of a tensor in place");
  add_results(std::move(call), names, std::move(types), scope);
}

void Importer::add_read(Json node, Scope& scope) {
  Json outputs = node.at("outputs"), inputs = node.at("inputs");
  for (auto o : outputs.array()) {
    std::string_view kind, form;
    Json out = outputs.child(o).only(kind);
    if (kind != "as_sym_int") continue;  // lower refuses what uses it
    Json name = out.only(form);
    if (form != "as_name") continue;
    const Dim size = size_named(scope, name.string());
    const std::optional<ir::SymbolId> read = size.as_symbol();
    if (!read && (!size.is_constant() || inner_ != 0)) continue;
    const std::string symbol = read ? g_.symbols[*read].name : fmt::format("read_{}", g_.symbols.size());
    if (std::any_of(g_.outputs.begin(), g_.outputs.end(), [&](const ir::Output& x) { return x.to == ir::Output::To::size && x.name == symbol; })) continue;
    for (auto i : inputs.array()) {
      std::string_view form_of;
      Json from = inputs.child(i).at("arg").only(form_of);
      if (form_of != "as_tensor") continue;
      const ValueId v = value_named(scope, from.at("name").string());
      if (foreign_.contains(v) || is_float(g_.type(v).dtype)) continue;
      g_.outputs.push_back({v, symbol, {}, ir::Output::To::size});
      if (read) continue;
      // The model needs it to be this number, such as the size of a mask made of lengths.
      const auto number = static_cast<ir::SymbolId>(g_.symbols.size());
      g_.checks.push_back({Dim::symbol(number), size, ir::Check::equal, g_.current_origin, fmt::format("it needs the number that is read here to be {}", size.value())});
      g_.symbols.push_back({symbol});
    }
  }
}

}  // namespace ingot::capture
