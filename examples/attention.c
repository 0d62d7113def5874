// C with libcurl and jansson. usage: cc attention.c -lcurl -ljansson -o attention && ./attention [URL]
#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

// The reply's document, to be freed with json_decref, and its status; NULL if there is none.
static json_t *post(const char *url, const char *body, long *status) {
    char address[256], *text = NULL;
    size_t length = 0;
    FILE *reply = open_memstream(&text, &length);
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    snprintf(address, sizeof address, "%s/attention", url);
    curl_easy_setopt(curl, CURLOPT_URL, address);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, reply); // written with fwrite
    CURLcode sent = curl_easy_perform(curl);
    if (sent != CURLE_OK) fprintf(stderr, "%s\n", curl_easy_strerror(sent));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    fclose(reply);
    json_t *document = json_loadb(text, length, 0, NULL);
    free(text);
    return document;
}

int main(int count, char **arguments) {
    const char *set = getenv("ATTENTIOND_URL");
    const char *url = count > 1 ? arguments[1] : set ? set : "http://127.0.0.1:8080";
    long status = 0;
    // The worked example: two queries, two keys and two values of three columns.
    json_t *reply = post(url, "{\"q\": [[2,0,1],[0,2,1]], \"k\": [[1,1,0],[0,1,1]], \"v\": [[1,0,1],[0,1,0]]}", &status);
    if (status != 200) return 1;
    size_t i, j;
    json_t *row, *number;
    json_array_foreach(json_object_get(reply, "output"), i, row) json_array_foreach(row, j, number)
        printf("%.6f%c", json_number_value(number), j + 1 < json_array_size(row) ? ' ' : '\n');
    json_decref(reply);
    // The query has two columns, but the key has three.
    reply = post(url, "{\"q\": [[2,0]], \"k\": [[1,1,0]], \"v\": [[1,0,1]]}", &status);
    const char *code, *pointer, *detail;
    if (status != 200 && !json_unpack(reply, "{s:s, s:s, s:s}", "code", &code, "pointer", &pointer, "detail", &detail))
        printf("%ld %s at %s: %s\n", status, code, pointer, detail);
    json_decref(reply);
}
