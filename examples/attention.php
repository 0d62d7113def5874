<?php
// PHP's standard library. usage: php attention.php [URL]
$url = $argv[1] ?? (getenv("ATTENTIOND_URL") ?: "http://127.0.0.1:8080");

class Problem extends Exception {
    public function __construct(public array $document) {
        parent::__construct($document["detail"], $document["status"]);
    }
}

function attention(string $url, array $fields): array {
    $context = stream_context_create(["http" => [
        "method" => "POST",
        "header" => "Content-Type: application/json",
        "content" => json_encode($fields),
        "ignore_errors" => true, // the body of an error is wanted too
    ]]);
    $reply = json_decode(file_get_contents("$url/attention", false, $context), true, 512, JSON_THROW_ON_ERROR);
    return isset($reply["code"]) ? throw new Problem($reply) : $reply;
}

// The worked example: two queries, two keys and two values of three columns.
$reply = attention($url, ["q" => [[2, 0, 1], [0, 2, 1]], "k" => [[1, 1, 0], [0, 1, 1]], "v" => [[1, 0, 1], [0, 1, 0]]]);
foreach ($reply["output"] as $row) {
    echo implode(" ", array_map(fn($number) => sprintf("%.6F", $number), $row)), "\n";
}

// The query has two columns, but the key has three.
try {
    attention($url, ["q" => [[2, 0]], "k" => [[1, 1, 0]], "v" => [[1, 0, 1]]]);
} catch (Problem $problem) {
    ["status" => $status, "code" => $code, "pointer" => $pointer, "detail" => $detail] = $problem->document;
    echo "$status $code at $pointer: $detail\n";
}
