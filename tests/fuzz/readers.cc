// Anything at all as a file that is read; the first byte chooses which kind of file.

#include <string_view>

#include "headproof/npy.h"
#include "headproof/safetensors.h"
#include "subjects/recorded_subject.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'n') (void)headproof::parse_npy(bytes, "file");
  if (data[0] == 's') (void)headproof::parse_safetensors(bytes, "file");
  if (data[0] == 'j') (void)headproof::parse_recorded_options(bytes);
  return 0;
}
