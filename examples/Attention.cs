// C# with what .NET and Mono both have. usage: dotnet run Attention.cs [URL] (.NET 10), or
// mcs -r:System.Net.Http -r:System.Runtime.Serialization Attention.cs && mono Attention.exe [URL]
using System;
using System.Globalization;
using System.Linq;
using System.Net.Http;
using System.Runtime.Serialization.Json;
using System.Text;

public class Reply
{
    public double[][] output;
    public int status;
    public string code, pointer, detail;
}

public static class Attention
{
    static readonly HttpClient client = new HttpClient();

    static Reply Post(string url, string body)
    {
        var content = new StringContent(body, Encoding.UTF8, "application/json");
        var response = client.PostAsync(url + "/attention", content).Result;
        var serializer = new DataContractJsonSerializer(typeof(Reply));
        return (Reply)serializer.ReadObject(response.Content.ReadAsStreamAsync().Result);
    }

    public static void Main(string[] arguments)
    {
        var url = arguments.FirstOrDefault() ?? Environment.GetEnvironmentVariable("ATTENTIOND_URL")
            ?? "http://127.0.0.1:8080";
        // The worked example: two queries, two keys and two values of three columns.
        var reply = Post(url, "{\"q\": [[2,0,1],[0,2,1]], \"k\": [[1,1,0],[0,1,1]], \"v\": [[1,0,1],[0,1,0]]}");
        foreach (var row in reply.output)
            Console.WriteLine(string.Join(" ", row.Select(x => x.ToString("F6", CultureInfo.InvariantCulture))));
        // The query has two columns, but the key has three.
        var problem = Post(url, "{\"q\": [[2,0]], \"k\": [[1,1,0]], \"v\": [[1,0,1]]}");
        if (problem.code != null)
            Console.WriteLine($"{problem.status} {problem.code} at {problem.pointer}: {problem.detail}");
    }
}
