// The results, one file each; registry.cc lists them in the lecture's order.
#pragma once

#include "headproof/theorems.h"

namespace headproof {

Theorem prop_3_1();
Theorem cor_3_2();
Theorem cor_3_3();
Theorem prop_5_1();
Theorem lemma_4_5();
Theorem ex_4();
Theorem thm_6_1();
Theorem cor_6_2();
Theorem sec_4_5();
Theorem ex_7();

// The lines between `// begin:` and `// end:` of each of these files, put here by the build.
extern const std::string_view prop_3_1_code, cor_3_2_code, cor_3_3_code, prop_5_1_code,
    lemma_4_5_code, ex_4_code, thm_6_1_code, cor_6_2_code, sec_4_5_code, ex_7_code;

}  // namespace headproof
