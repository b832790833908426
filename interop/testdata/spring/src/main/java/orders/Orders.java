package orders;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.event.ContextClosedEvent;
import org.springframework.context.event.EventListener;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;

/** A Spring Boot program as people write it; it knows nothing of Eider. */
@SpringBootApplication
@RestController
public class Orders {
	public static void main(String[] args) {
		SpringApplication.run(Orders.class, args);
	}

	@GetMapping("/ready")
	String ready() {
		return "ok\n";
	}

	@PostMapping("/pay")
	String pay(@RequestBody String order) throws InterruptedException {
		Thread.sleep(5);
		return "paid\n";
	}

	@EventListener(ContextClosedEvent.class)
	void end() {
		System.out.println("told to end");
	}
}
