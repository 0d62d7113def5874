# R with the packages curl and jsonlite. usage: Rscript attention.R [URL]
arguments <- commandArgs(trailingOnly = TRUE)
url <- if (length(arguments)) arguments[1] else Sys.getenv("ATTENTIOND_URL", "http://127.0.0.1:8080")

# matrices in, the reply's matrices out; an error is a condition of class "problem"
attention <- function(...) {
  body <- jsonlite::toJSON(list(...), digits = NA, auto_unbox = TRUE)
  handle <- curl::new_handle(postfields = as.character(body))
  curl::handle_setheaders(handle, "Content-Type" = "application/json")
  reply <- curl::curl_fetch_memory(paste0(url, "/attention"), handle)
  document <- jsonlite::fromJSON(rawToChar(reply$content))
  if (reply$status_code != 200) {
    stop(structure(class = c("problem", "error", "condition"), c(document, list(message = document$detail))))
  }
  document
}

# The worked example: two queries, two keys and two values of three columns.
reply <- attention(q = rbind(c(2, 0, 1), c(0, 2, 1)), k = rbind(c(1, 1, 0), c(0, 1, 1)),
                   v = rbind(c(1, 0, 1), c(0, 1, 0)))
for (i in seq_len(nrow(reply$output))) cat(sprintf("%.6f", reply$output[i, ]), fill = TRUE)

# The query has two columns, but the key has three.
tryCatch(
  attention(q = rbind(c(2, 0)), k = rbind(c(1, 1, 0)), v = rbind(c(1, 0, 1))),
  problem = function(p) cat(sprintf("%d %s at %s: %s\n", p$status, p$code, p$pointer, p$detail))
)
