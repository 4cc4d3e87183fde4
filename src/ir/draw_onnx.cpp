// Messages of onnx.proto3 as protobuf lays them out: a key (field << 3 | kind) and a varint, or a length and bytes.
#include <cstring>

#include "ir/draw.h"

namespace ingot::ir {

namespace {

class Message {
 public:
  void number(int field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
  }
  void text(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(int field, const Message& value) { text(field, value.bytes_); }
  void real(int field, float value) {
    key(field, 5);
    char raw[4];
    std::memcpy(raw, &value, 4);
    bytes_.append(raw, 4);
  }
  std::string take() { return std::move(bytes_); }

 private:
  void key(int field, int kind) { varint(static_cast<uint64_t>(field << 3 | kind)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// TensorProto.DataType; 0 is its "undefined".
int data_type(DType t) {
  switch (t) {
    case DType::f32: return 1;
    case DType::u8: return 2;
    case DType::i8: return 3;
    case DType::i16: return 5;
    case DType::i32: return 6;
    case DType::i64: return 7;
    case DType::b8: return 9;
    case DType::f16: return 10;
    case DType::f64: return 11;
    case DType::bf16: return 16;
    default: return 0;
  }
}

class Writer {
 public:
  explicit Writer(const Graph& g) : g_(g) {}

  std::string run() {
    for (const Node& n : g_.nodes) {
      if (n.op != Op::input && n.op != Op::weight) graph_.message(1, node(n));
    }
    graph_.text(2, "ingot");
    for (const Weight& w : g_.weights) graph_.message(5, initializer(w));
    for (const Input& i : g_.inputs) graph_.message(11, value(name(i.value), g_.type(i.value)));
    // An output has its own name: the value may be an input too, or two outputs.
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const Output& o = g_.outputs[i];
      const std::string given = "output " + std::to_string(i) + " " + o.name;
      Message same;
      same.text(1, name(o.value));
      same.text(2, given);
      same.text(3, given);
      same.text(4, o.to == Output::To::caller ? "output" : "write");
      same.text(7, "ingot");
      graph_.message(1, same);
      graph_.message(12, value(given, g_.type(o.value)));
    }
    for (const Node& n : g_.nodes) {
      if (n.op == Op::input || n.op == Op::weight) continue;
      for (ValueId v : n.out) graph_.message(13, value(name(v), g_.type(v)));
    }
    Message model, operators;
    operators.text(1, "ingot");
    operators.number(2, 1);
    model.number(1, 8);  // the version of ONNX's files
    model.text(2, "ingot");
    model.message(7, graph_);
    model.message(8, operators);
    return model.take();
  }

 private:
  std::string name(ValueId v) const {
    const Weight* w = g_.weight_of(v);
    const std::string own = w != nullptr ? w->name : g_.values[v].name;
    return "%" + std::to_string(v) + (own.empty() ? "" : " " + own);
  }

  Message node(const Node& n) const {
    Message m;
    for (ValueId v : n.in) m.text(1, name(v));
    for (ValueId v : n.out) m.text(2, name(v));
    const Origin* origin = n.origin == none_id ? nullptr : &g_.origins[n.origin];
    const std::string number = std::to_string(&n - g_.nodes.data());
    m.text(3, origin != nullptr && !origin->node.empty() ? origin->node + " #" + number : "#" + number);
    m.text(4, n.op == Op::call ? n.attributes.string("target") : std::string(name_of(n.op)));
    for (const auto& [key, attribute] : n.attributes) {
      if (!attribute.is_none()) m.message(5, of(key, attribute));
    }
    if (origin != nullptr) m.text(6, origin->text());
    m.text(7, "ingot");
    return m;
  }

  Message of(const std::string& key, const Attribute& a) const {
    constexpr int real = 1, integer = 2, string = 3;  // AttributeProto.AttributeType
    Message m;
    m.text(1, key);
    int type = string;
    if (const auto* whole = std::get_if<int64_t>(&a.value)) {
      m.number(3, *whole);
      type = integer;
    } else if (const auto* flag = std::get_if<bool>(&a.value)) {
      m.number(3, *flag);
      type = integer;
    } else if (const auto* number = std::get_if<double>(&a.value)) {
      m.real(2, static_cast<float>(*number));
      type = real;
    } else {
      m.text(4, text_of(g_, a));
    }
    m.number(20, type);
    return m;
  }

  Message value(const std::string& name, const Type& t) const {
    Message shape, tensor, type, m;
    for (const Dim& d : t.dims) {
      Message dim;
      if (d.is_constant()) {
        dim.number(1, d.value());
      } else {
        dim.text(2, d.text(g_.symbols));
      }
      shape.message(1, dim);
    }
    tensor.number(1, data_type(t.dtype));
    tensor.message(2, shape);
    type.message(1, tensor);
    m.text(1, name);
    m.message(2, type);
    return m;
  }

  // Without values, which are in the plan: readers of ONNX look for a file where a tensor says that its data is elsewhere.
  Message initializer(const Weight& w) const {
    Message m;
    for (const Dim& d : g_.type(w.value).dims) m.number(1, d.is_constant() ? d.value() : 0);
    m.number(2, data_type(g_.type(w.value).dtype));
    m.text(8, name(w.value));
    return m;
  }

  const Graph& g_;
  Message graph_;
};

}  // namespace

std::string draw_onnx(const Graph& g) { return Writer(g).run(); }

}  // namespace ingot::ir
