// A terminal that shows one page again and again. It is given back on every way out, signals among them.
#pragma once

#include <stdbool.h>

/** Whether standard output is a terminal that can do it. */
bool screen_possible(void);
/** Takes the terminal: another page, no cursor, keys at once. */
void screen_begin(void);
/** Gives it back; and takes it again, behind screen_begin(). */
void screen_give(void);
void screen_take(void);
/** Columns and lines of it now. false: they are not known. */
bool screen_size(unsigned *ret_columns, unsigned *ret_lines);
/** Waits until the next page is due. @key may do something; where it says false, as without it for q, somebody asked to end. */
bool screen_wait(unsigned *seconds, bool (*key)(char key, unsigned *seconds));
