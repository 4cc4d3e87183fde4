#include "capture/zip.h"

#include <cstring>

#include "base/error.h"
#include "base/plan_mark.h"

namespace ingot::capture {

namespace {
constexpr uint32_t end_mark = 0x06054b50, end64_mark = 0x06064b50, locator_mark = 0x07064b50, entry_mark = 0x02014b50, local_mark = 0x04034b50;
}  // namespace

Zip::Zip(std::shared_ptr<const MappedFile> file, std::string path) : file_(std::move(file)), path_(std::move(path)), data_(file_->bytes()) { read_directory(); }

void Zip::damaged(std::string_view what) const {
  throw Error(Code::format, fmt::format("{} is not a readable .pt2 archive: {}", path_, what), {}, "Save the model again with torch.export.save.");
}

uint64_t Zip::number(uint64_t at, int bytes) const {
  if (at > data_.size() || data_.size() - at < static_cast<uint64_t>(bytes)) damaged("it ends too early");
  uint64_t v = 0;
  for (int i = 0; i < bytes; ++i) v |= static_cast<uint64_t>(data_[at + static_cast<uint64_t>(i)]) << (8 * i);
  return v;
}

void Zip::read_directory() {
  uint64_t size = data_.size();
  if (size > plan_mark.size() && std::memcmp(data_.data(), plan_mark.data(), plan_mark.size()) == 0)
    throw Error(Code::format, fmt::format("{} is a plan: it is compiled already", path_)).fix("run it with `ingot run`, or compile the .pt2 archive that it was made of");
  if (path_.ends_with(".onnx"))
    throw Error(Code::format, fmt::format("{} is a model of ONNX, which ingot does not read", path_))
        .fix("export the PyTorch model that it was made of: torch.export.save(torch.export.export(model, args), path)");
  if (size < 22) damaged("it is too short to be a zip file");
  // The end record is the last thing in the file but for a comment of at most 65535 bytes.
  uint64_t lowest = size > 22 + 65535 ? size - 22 - 65535 : 0, end = size - 22;
  while (number(end, 4) != end_mark) {
    if (end == lowest) damaged("the zip directory is missing (the file may be truncated)");
    --end;
  }
  uint64_t count = number(end + 10, 2), bytes = number(end + 12, 4), at = number(end + 16, 4);
  if ((count == 0xffff || bytes == 0xffffffff || at == 0xffffffff) && end >= 20 && number(end - 20, 4) == locator_mark) {
    uint64_t end64 = number(end - 12, 8);
    if (number(end64, 4) != end64_mark) damaged("the zip64 directory is missing");
    count = number(end64 + 32, 8);
    bytes = number(end64 + 40, 8);
    at = number(end64 + 48, 8);
  }
  if (at > size || size - at < bytes) damaged("the zip directory is outside the file");
  for (uint64_t i = 0; i < count; ++i) {
    if (number(at, 4) != entry_mark) damaged(fmt::format("entry {} of the zip directory is broken", i));
    Entry e;
    e.flags = static_cast<uint16_t>(number(at + 8, 2));
    e.method = static_cast<uint16_t>(number(at + 10, 2));
    e.packed = number(at + 20, 4);
    e.size = number(at + 24, 4);
    uint64_t name_size = number(at + 28, 2), extra_size = number(at + 30, 2), comment_size = number(at + 32, 2);
    e.header = number(at + 42, 4);
    uint64_t name_at = at + 46, extra = name_at + name_size, extra_end = extra + extra_size;
    if (extra_end > size || size - extra_end < comment_size) damaged("the zip directory ends too early");
    std::string name(reinterpret_cast<const char*>(data_.data() + name_at), name_size);
    // Sizes over 4 GiB stand in the zip64 field, in this order, only those that did not fit.
    for (uint64_t x = extra; x + 4 <= extra_end;) {
      uint64_t id = number(x, 2), length = number(x + 2, 2), field = x + 4;
      if (length > extra_end - field) damaged("an extra field of the zip directory is broken");
      if (id == 1) {
        uint64_t stop = field + length;
        for (uint64_t* v : {&e.size, &e.packed, &e.header}) {
          if (*v != 0xffffffff) continue;
          if (stop - field < 8) damaged("a zip64 field is too short");
          *v = number(field, 8);
          field += 8;
        }
      }
      x += 4 + length;
    }
    size_t slash = name.find('/');
    if (slash != std::string::npos) name = name.substr(slash + 1);
    if (!name.empty()) entries_[name] = e;
    at = extra_end + comment_size;
  }
}

std::span<const std::byte> Zip::bytes(std::string_view name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) damaged(fmt::format("it has no entry {}", name));
  const Entry& e = found->second;
  if (e.method != 0 || (e.flags & 1) != 0 || e.packed != e.size) damaged(fmt::format("entry {} is compressed or encrypted, which torch never writes", name));
  if (number(e.header, 4) != local_mark) damaged(fmt::format("entry {} points to nothing", name));
  uint64_t begin = e.header + 30 + number(e.header + 26, 2) + number(e.header + 28, 2);
  if (begin > data_.size() || data_.size() - begin < e.size) damaged(fmt::format("entry {} of {} bytes is outside the file", name, e.size));
  return data_.subspan(begin, e.size);
}

std::string_view Zip::text(std::string_view name) const {
  std::span<const std::byte> b = bytes(name);
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

std::vector<std::string> Zip::names(std::string_view folder) const {
  std::vector<std::string> out;
  for (auto it = entries_.lower_bound(folder); it != entries_.end() && it->first.starts_with(folder); ++it) out.push_back(it->first);
  return out;
}

}  // namespace ingot::capture
