// The JDK alone, 11 or newer. It has no JSON reader: patterns are enough for these replies; use Jackson for more.
// usage: java Attention.java [URL]
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Locale;
import java.util.regex.Pattern;

public class Attention {
    static HttpResponse<String> post(String url, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(url + "/attention"))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    }

    static String member(String document, String name) {
        var match = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(document);
        return match.find() ? match.group(1) : "";
    }

    public static void main(String[] arguments) throws Exception {
        var url = arguments.length > 0 ? arguments[0]
            : System.getenv().getOrDefault("ATTENTIOND_URL", "http://127.0.0.1:8080");
        // The worked example: two queries, two keys and two values of three columns.
        var reply = post(url, "{\"q\": [[2,0,1],[0,2,1]], \"k\": [[1,1,0],[0,1,1]], \"v\": [[1,0,1],[0,1,0]]}");
        var rows = Pattern.compile("\\[([^\\[\\]]+)\\]").matcher(reply.body());
        while (rows.find()) {
            var line = new StringBuilder();
            for (var number : rows.group(1).split(",")) {
                line.append(String.format(Locale.ROOT, " %.6f", Double.parseDouble(number)));
            }
            System.out.println(line.substring(1));
        }
        // The query has two columns, but the key has three.
        reply = post(url, "{\"q\": [[2,0]], \"k\": [[1,1,0]], \"v\": [[1,0,1]]}");
        if (reply.statusCode() != 200) {
            System.out.println(reply.statusCode() + " " + member(reply.body(), "code") + " at "
                + member(reply.body(), "pointer") + ": " + member(reply.body(), "detail"));
        }
    }
}
