#include "capture/safetensors.h"

#include <simdjson.h>

#include <cstring>
#include <string_view>
#include <unordered_set>

#include "base/error.h"

namespace ingot::capture {

namespace {

constexpr uint64_t longest_header = 100'000'000;  // as the format says

struct Type {
  std::string_view name;
  size_t bits;
  std::optional<ir::DType> dtype;
};
constexpr Type types[] = {
    {"BOOL", 8, ir::DType::b8},
    {"U8", 8, ir::DType::u8},
    {"I8", 8, ir::DType::i8},
    {"I16", 16, ir::DType::i16},
    {"I32", 32, ir::DType::i32},
    {"I64", 64, ir::DType::i64},
    {"F16", 16, ir::DType::f16},
    {"BF16", 16, ir::DType::bf16},
    {"F32", 32, ir::DType::f32},
    {"F64", 64, ir::DType::f64},
    {"U16", 16, {}},
    {"U32", 32, {}},
    {"U64", 64, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},
    {"C64", 64, {}},
};

class Header {
 public:
  Header(const std::string& path, std::span<const std::byte> values) : path_(path), values_(values) {}

  NamedTensor tensor(std::string_view name, simdjson::dom::element entry) const {
    NamedTensor out;
    out.name = name;
    std::string_view type;
    simdjson::dom::array shape, offsets;
    if (entry["dtype"].get(type) != simdjson::SUCCESS || entry["shape"].get(shape) != simdjson::SUCCESS || entry["data_offsets"].get(offsets) != simdjson::SUCCESS)
      bad(name, "has no dtype, shape and data_offsets");
    out.type = type;
    const Type* known = nullptr;
    for (const Type& t : types) known = t.name == type ? &t : known;
    uint64_t size = known != nullptr ? known->bits / 8 : 0;
    for (auto element : shape) {
      int64_t dim;
      if (element.get(dim) != simdjson::SUCCESS || dim < 0) bad(name, "has a size that is not a number of 0 or more");
      if (__builtin_mul_overflow(size, static_cast<uint64_t>(dim), &size)) bad(name, "has more elements than there can be");
      out.dims.push_back(dim);
    }
    uint64_t ends[2] = {}, count = 0;
    for (auto element : offsets) {
      if (count == 2 || element.get(ends[count++]) != simdjson::SUCCESS) bad(name, "has data_offsets that are not two numbers");
    }
    if (count != 2 || ends[0] > ends[1] || ends[1] > values_.size()) bad(name, "is outside of the file");
    if (known != nullptr && ends[1] - ends[0] != size) bad(name, "has other bytes than its dtype and shape say");
    if (known != nullptr) out.dtype = known->dtype;
    out.bytes = values_.subspan(ends[0], ends[1] - ends[0]);
    return out;
  }

  [[noreturn]] void bad(std::string_view name, std::string_view why) const {
    throw Error(Code::format, fmt::format("{}: tensor \"{}\" {}", path_, name.substr(0, 200), why)).fix("write the file again: it is damaged");
  }
  [[noreturn]] void bad(std::string_view why) const {
    throw Error(Code::format, fmt::format("{} is not a safetensors file: {}", path_, why)).fix("give a file that safetensors wrote");
  }

 private:
  const std::string& path_;
  std::span<const std::byte> values_;
};

}  // namespace

TensorFile read_safetensors(const std::string& path) {
  TensorFile out;
  out.file = MappedFile::open(path);
  const std::span<const std::byte> bytes = out.file->bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof length) Header(path, {}).bad("it has less than 8 bytes");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > longest_header || length > bytes.size() - sizeof length) Header(path, {}).bad("its header would end after the file");
  const Header header(path, bytes.subspan(sizeof length + length));
  simdjson::dom::parser parser;
  simdjson::dom::object entries;
  const auto error = parser.parse(reinterpret_cast<const char*>(bytes.data()) + sizeof length, length, true).get(entries);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error != simdjson::SUCCESS) header.bad("its header is not a JSON object");
  std::unordered_set<std::string_view> names;
  for (auto field : entries) {
    if (!names.insert(field.key).second) header.bad(field.key, "is there twice");
    if (field.key != "__metadata__") {
      out.tensors.push_back(header.tensor(field.key, field.value));
      continue;
    }
    std::string_view text;
    if (field.value.is_object() && field.value.at_key("lora_adapter_metadata").get(text) == simdjson::SUCCESS) out.adapter_metadata = text;
  }
  return out;
}

}  // namespace ingot::capture
