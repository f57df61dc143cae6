/* SPDX-License-Identifier: Apache-2.0 */
#include "command/show/page.h"

#include "command/json.h"
#include "command/show/picture.h"

#include <errno.h>
#include <stdlib.h>

/* The page's style and the viewer are files of their own; the assembler takes them in as they are. */
__asm__(".pushsection .rodata\n"
	".type page_css, %object\n"
	"page_css:\n"
	".incbin \"src/command/show/page.css\"\n"
	".byte 0\n"
	".size page_css, . - page_css\n"
	".type page_js, %object\n"
	"page_js:\n"
	".incbin \"src/command/show/page_parts.js\"\n"
	".incbin \"src/command/show/page_sides.js\"\n"
	".incbin \"src/command/show/page_machine.js\"\n"
	".incbin \"src/command/show/page_fabric.js\"\n"
	".incbin \"src/command/show/page.js\"\n"
	".byte 0\n"
	".size page_js, . - page_js\n"
	".popsection\n");
extern const char page_css[], page_js[];

void page_begin(const char *title, FILE *out)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
	      "script-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n<title>",
	      out);
	picture_escape(*title ? title : "Machine", out);
	fprintf(out, " – Tributary</title>\n<style>\n%s</style>\n</head>\n<body>\n", page_css);
}

/* In a page's script element "</script" would end it, wherever it stands. */
int page_end(const char *format, json_t *value, FILE *out)
{
	json_t *whole = json_whole(format, value);
	char *text = whole ? json_dumps(whole, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;

	json_decref(whole);
	if (!text)
		return -ENOMEM;
	fputs("<script type=\"application/json\" id=\"data\">", out);
	for (const char *at = text; *at; at++) {
		if (*at == '<')
			fputs("\\u003c", out);
		else
			fputc(*at, out);
	}
	free(text);
	fprintf(out, "</script>\n<script>\n%s</script>\n</body>\n</html>\n", page_js);
	return 0;
}
