#include "base/build_id.h"

#include <elf.h>
#include <fmt/core.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <span>

namespace ingot {

namespace {

struct Search {
  uintptr_t address;
  std::string found;
};

// The description of the note NT_GNU_BUILD_ID in a segment of notes.
std::string id_in(std::span<const unsigned char> notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    auto whole = [](size_t bytes) { return (bytes + 3) / 4 * 4; };
    const size_t name = sizeof note, description = name + whole(note.n_namesz), end = description + whole(note.n_descsz);
    if (end > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0) {
      std::string digits;
      for (unsigned char byte : notes.subspan(description, note.n_descsz)) digits += fmt::format("{:02x}", static_cast<unsigned>(byte));
      return digits;
    }
    notes = notes.subspan(end);
  }
  return "";
}

int look(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::span<const ElfW(Phdr)> headers(object->dlpi_phdr, object->dlpi_phnum);
  bool here = false;
  for (const ElfW(Phdr) & h : headers) here = here || (h.p_type == PT_LOAD && search.address - (object->dlpi_addr + h.p_vaddr) < h.p_memsz);
  if (!here) return 0;
  for (const ElfW(Phdr) & h : headers) {
    if (h.p_type == PT_NOTE && search.found.empty()) search.found = id_in({reinterpret_cast<const unsigned char*>(object->dlpi_addr + h.p_vaddr), h.p_memsz});
  }
  return 1;
}

}  // namespace

std::string build_id_of(const void* address) {
  Search search{reinterpret_cast<uintptr_t>(address), {}};
  ::dl_iterate_phdr(look, &search);
  return search.found;
}

}  // namespace ingot
