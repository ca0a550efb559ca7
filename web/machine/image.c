// The page parses its knowledge: the image is of the machine that builds it.
#include "knowledge/image.h"

struct know *image_load(void) { return NULL; }
