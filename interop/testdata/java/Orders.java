import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;

/** A program as people write it with the JDK alone; it knows nothing of Eider. */
public class Orders {
	public static void main(String[] args) throws IOException {
		int port = Integer.parseInt(System.getenv("PORT"));
		HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 128);
		server.setExecutor(Executors.newCachedThreadPool());
		server.createContext("/", exchange -> {
			exchange.getRequestBody().readAllBytes();
			if (exchange.getRequestMethod().equals("POST")) {
				pause(5);
			}
			byte[] answer = "paid\n".getBytes(StandardCharsets.US_ASCII);
			exchange.sendResponseHeaders(200, answer.length);
			exchange.getResponseBody().write(answer);
			exchange.close();
		});
		Runtime.getRuntime().addShutdownHook(new Thread(() -> {
			System.out.println("told to end");
			server.stop(1);
		}));
		server.start();
		System.out.println("serving");
	}

	static void pause(long milliseconds) {
		try {
			Thread.sleep(milliseconds);
		} catch (InterruptedException e) {
			throw new IllegalStateException(e);
		}
	}
}
