// In place of the image where none can be made: for tools/make_image.c itself, for sanitisers, and for another machine than this one.
#include "knowledge/image.h"

const struct know_image know_image;
