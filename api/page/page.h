/* page.h: the page at / and its files, which the build embeds from web/ (inside api/ only). */
#ifndef API_PAGE_H
#define API_PAGE_H

#include "../http/request.h"

typedef struct api_page_file {
    const char *name; /* "main.js"; index.html is the page itself */
    const unsigned char *bytes;
    const size_t *length;
    const char *tag; /* weak entity tag, W/"...": changes with the bytes, not with a coding */
} api_page_file;

extern const api_page_file api_page_files[]; /* made by tools/embed-page.sh; name NULL ends the list */

bool api_has_page(const api_service *service);
void api_page_begin(api_request *request, const api_head *head);
void api_page_answer(api_request *request);

#endif
